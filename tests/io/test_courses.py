"""Kinds, endings and lengths of visits on rows written by hand, and the visit that a death falls into."""

from __future__ import annotations

import pytest

from adapcla.io.courses import make_courses
from adapcla.io.workbench import Workbench

KINDS, ENDS = {"": "", "in": "inpatient"}, {"": "", "out": "home"}


def made(rows: list[str], deaths: str | None = None) -> tuple[list[tuple[object, ...]], dict[str, int], dict[str, int]]:
    """The courses of these rows (kind, ending, died, begins, days by visit), words not known, what was dropped."""
    query = " UNION ALL ".join(
        f"SELECT '1' AS patient, '{number}' AS visit, {row}" for number, row in enumerate(rows, start=1)
    )
    with Workbench() as bench:
        said = make_courses(bench, query, KINDS, ENDS, deaths)
        found = bench.query("SELECT visit, kind, ending, days, late FROM courses ORDER BY visit")
        return found, said, dict(bench.dropped)


def row(kind: str, ending: str, begins: float, days: str, died: str = "false") -> str:
    times = f"CAST({begins} AS DOUBLE) AS begins, CAST({days} AS DOUBLE) AS days"
    return f"'{kind}' AS kind, '{ending}' AS ending, {died} AS died, {times}"


def test_words_are_known_unknown_or_missing() -> None:
    found, said, dropped = made([row("IN", "Out", 0, "1.239"), row("", "", 5, "NULL"), row("space", "moon", 9, "-1")])
    assert found == [
        ("1", "inpatient", "home", 1.24, False),
        ("2", "", "", None, False),
        ("3", "other", "other", None, False),
    ]
    assert said == {"rows of another kind of visit": 1, "rows of another ending": 1}
    assert dropped == {"lengths of stay below zero": 1}


def test_a_source_may_say_that_somebody_died() -> None:
    assert made([row("in", "out", 0, "1", died="true")])[0][0][2] == "died"


@pytest.mark.parametrize(
    ("day", "endings", "late"),
    [
        (12.9, ["home", "died", "home"], [False, False, True]),
        (10.0, ["home", "died", "home"], [False, False, True]),
        (15.0, ["home", "home", "home"], [False, False, True]),
        (90.0, ["home", "home", "home"], [False, False, False]),
        (20.2, ["home", "home", "died"], [False, False, False]),
    ],
)
def test_a_death_goes_to_the_visit_of_its_day(day: float, endings: list[str], late: list[bool]) -> None:
    """Visits on days 0, 10 to 12 and 20: a death between them belongs to none, and what begins later is marked."""
    rows = [row("in", "out", 0, "NULL"), row("in", "out", 10.5, "2"), row("in", "out", 20.5, "0")]
    found, _, _ = made(rows, f"SELECT '1' AS patient, CAST({day} AS DOUBLE) AS day")
    assert [course[2] for course in found] == endings
    assert [course[4] for course in found] == late
