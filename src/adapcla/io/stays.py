"""Codes that point to a visit of another table, or to none: what sources of that shape share."""

from __future__ import annotations

from adapcla.io.workbench import Workbench

#: A visit in these sources, for the card; {} is the name of the visit's id.
VISIT_RULE = "one {}, or one calendar day where a row has none; ordered by the start of the visit"


def shape_visits(bench: Workbench, results: bool = False) -> None:
    """Make `entries` and `visits` from `named` (patient, visit, date, code, system, domain) and `stays`.

    `stays` holds patient, visit and date, the start. A code without a visit goes to its calendar day; a visit that
    `stays` lacks begins with its first code. With `results`, `named` also holds measured (whether the row is one of a
    number), value and unit, and `results` is made of the rows of numbers.
    """
    more = ", measured, value, unit" if results else ""
    bench.run(
        f"""CREATE TABLE placed AS SELECT patient, code, system, domain, date{more},
            CASE WHEN visit <> '' THEN visit WHEN date <> '' THEN 'day ' || left(date, 10) ELSE '' END AS visit
            FROM named"""
    )
    codes = "SELECT patient, visit, code, system, domain FROM placed" + (" WHERE NOT measured" if results else "")
    bench.run(f"CREATE VIEW entries AS {codes}")
    if results:
        bench.run("CREATE VIEW results AS SELECT *, days_of(date) AS moment FROM placed WHERE measured")
    bench.run(
        """CREATE VIEW visits AS SELECT patient, visit, date, '' AS day, '' AS sequence FROM stays UNION ALL
           SELECT e.patient, e.visit, e.date, '', '' FROM placed e ANTI JOIN stays s
           ON s.patient = e.patient AND s.visit = e.visit"""
    )


def n_by_day(bench: Workbench) -> int:
    """The number of codes that went to a calendar day because they have no visit."""
    return bench.number("SELECT count(*) FROM placed WHERE starts_with(visit, 'day ')")
