"""What kind of visit each was, how long it took and how it ended, for every source alike.

A source gives a query of one or more rows for each visit; `make_courses` turns its words into the kinds and endings of
a cohort and finds the visit in which a patient died. `assemble` takes what comes out as codes and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapcla.io.workbench import Workbench

#: What a source without one of them gives in its query.
NO_DAY = "CAST(NULL AS DOUBLE)"


def make_courses(
    bench: Workbench, rows: str, kinds: Mapping[str, str], ends: Mapping[str, str], deaths: str | None = None
) -> dict[str, int]:
    """Make `courses` (patient, visit, kind, ending, days, late); how many words were not known, for the card.

    Args:
        bench: Where the tables of the query are.
        rows: SQL for patient, visit, kind and ending (words), died (true where the source says so), begins and days
            (numbers of days).
        kinds: Word in lower case → kind of visit, or nothing.
        ends: Word in lower case → ending, or nothing.
        deaths: SQL for patient and day (a number of days) of those who died, in a visit or outside.
    """
    for name, words in (("kind_words", kinds), ("end_words", ends)):
        _add_words(bench, name, words)
    bench.run(
        f"""CREATE TABLE course_rows AS SELECT r.patient, r.visit, r.begins, r.days, coalesce(r.died, false) AS died,
            coalesce(k.meaning, 'other') AS kind, coalesce(e.meaning, 'other') AS ending,
            k.meaning IS NULL AS odd_kind, e.meaning IS NULL AS odd_end FROM ({rows}) r
            LEFT JOIN kind_words k ON k.word = lower(coalesce(r.kind, ''))
            LEFT JOIN end_words e ON e.word = lower(coalesce(r.ending, ''))"""
    )
    bench.drop("lengths of stay below zero", bench.number("SELECT count(*) FROM course_rows WHERE days < 0"))
    bench.run("UPDATE course_rows SET days = NULL WHERE days < 0 OR NOT isfinite(days)")
    bench.run(
        """CREATE TABLE courses AS SELECT patient, visit, coalesce(min(kind) FILTER (kind <> ''), '') AS kind,
           CASE WHEN bool_or(died OR ending = 'died') THEN 'died'
                ELSE coalesce(min(ending) FILTER (ending <> ''), '') END AS ending,
           min(begins) AS begins, round(max(days), 2) AS days, false AS late
           FROM course_rows GROUP BY patient, visit"""
    )
    if deaths is not None:
        _place_deaths(bench, deaths)
    odd_kinds, odd_ends = bench.query("SELECT sum(odd_kind::INTEGER), sum(odd_end::INTEGER) FROM course_rows")[0]
    said = {"rows of another kind of visit": int(odd_kinds or 0), "rows of another ending": int(odd_ends or 0)}
    return {what: n for what, n in said.items() if n}


def _add_words(bench: Workbench, name: str, words: Mapping[str, str]) -> None:
    """Make a table of words and their meanings."""
    import pyarrow as pa

    columns = {"word": list(words), "meaning": list(words.values())}
    bench.add(name, [pa.record_batch({c: pa.array(v, pa.string()) for c, v in columns.items()})])


def _place_deaths(bench: Workbench, deaths: str) -> None:
    """Give each death to the visit that it fell into, if any, and mark the visits that begin on a later day."""
    bench.run(f"CREATE TABLE deaths AS SELECT patient, min(day) AS day FROM ({deaths}) GROUP BY patient")
    bench.run(
        """UPDATE courses SET ending = 'died' FROM (
               SELECT c.patient, c.visit FROM courses c JOIN deaths d ON d.patient = c.patient
               WHERE floor(c.begins) <= floor(d.day) AND floor(d.day) <= floor(c.begins + coalesce(c.days, 0))
               QUALIFY row_number() OVER (PARTITION BY c.patient ORDER BY c.begins DESC, c.visit DESC) = 1
           ) f WHERE f.patient = courses.patient AND f.visit = courses.visit"""
    )
    bench.run(
        """UPDATE courses SET late = true FROM deaths d
           WHERE d.patient = courses.patient AND floor(courses.begins) > floor(d.day)"""
    )
