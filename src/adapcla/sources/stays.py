"""Codes that point to a visit of another table, or to none: what sources of that shape share."""

from __future__ import annotations

from adapcla.sources.workbench import Workbench

#: A visit in these sources, for the card; {} is the name of the visit's id.
VISIT_RULE = "one {}, or one calendar day where a row has none; ordered by the start of the visit"


def shape_visits(bench: Workbench) -> None:
    """Make `entries` and `visits` from `named` (patient, visit, date, code, system, domain) and `stays`.

    `stays` holds patient, visit and date, the start. A code without a visit goes to its calendar day; a visit that
    `stays` lacks begins with its first code.
    """
    bench.run(
        """CREATE TABLE entries AS SELECT patient, code, system, domain, date,
           CASE WHEN visit <> '' THEN visit WHEN date <> '' THEN 'day ' || left(date, 10) ELSE '' END AS visit
           FROM named"""
    )
    bench.run(
        """CREATE VIEW visits AS SELECT patient, visit, date, '' AS day, '' AS sequence FROM stays UNION ALL
           SELECT e.patient, e.visit, e.date, '', '' FROM entries e ANTI JOIN stays s
           ON s.patient = e.patient AND s.visit = e.visit"""
    )


def n_by_day(bench: Workbench) -> int:
    """The number of codes that went to a calendar day because they have no visit."""
    return bench.number("SELECT count(*) FROM entries WHERE starts_with(visit, 'day ')")
