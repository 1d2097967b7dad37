"""Kinds, endings and lengths of visits on rows written by hand, and the visit that a death falls into."""

from __future__ import annotations

import pytest

from adapcla.io.assemble import make_stays
from adapcla.io.database import Database

KINDS, ENDS = {"": "", "in": "inpatient"}, {"": "", "out": "home"}


def made(rows: list[str], death: str = "") -> tuple[list[tuple[object, ...]], dict[str, int], dict[str, int]]:
    """The stays of these visits, words not known, what was dropped."""
    query = " UNION ALL ".join(
        f"SELECT '1' AS patient, '{number}' AS visit, {row}" for number, row in enumerate(rows, start=1)
    )
    with Database() as db:
        db.run(f"CREATE VIEW source_visits AS {query}")
        db.run(f"CREATE VIEW source_patients AS SELECT '1' AS patient, '{death}' AS death")
        said = make_stays(db, KINDS, ENDS)
        found = db.query("SELECT visit, kind, ending, days, late FROM stays ORDER BY visit")
        return found, said, dict(db.dropped)


def row(kind: str, ending: str, start: str, days: str = "NULL", died: str = "false", end: str = "") -> str:
    times = f"CAST({days} AS DOUBLE) AS length_days, '{start}' AS start, '{end}' AS \"end\""
    return f"'{kind}' AS kind, '{ending}' AS discharge, {died} AS died, {times}"


def test_words_are_known_unknown_or_missing() -> None:
    rows = [row("IN", "Out", "2020-01-01", "1.239"), row("", "", "2020-01-05"), row("space", "moon", "", "-1")]
    found, said, dropped = made(rows)
    assert found == [
        ("1", "inpatient", "home", 1.24, False),
        ("2", "", "", None, False),
        ("3", "other", "other", None, False),
    ]
    assert said == {"rows of another kind of visit": 1, "rows of another ending": 1}
    assert dropped == {"lengths of stay below zero": 1}


def test_a_source_may_say_that_somebody_died() -> None:
    assert made([row("in", "out", "2020-01-01", "1", died="true")])[0][0][2] == "died"


def test_a_stay_takes_from_start_to_end() -> None:
    """By the clock where both have a time, by days where the end has none."""
    rows = [
        row("in", "out", "2020-01-01 06:00:00", end="2020-01-02 18:00:00"),
        row("in", "out", "2020-01-01 06:00:00", end="2020-01-02"),
    ]
    assert [stay[3] for stay in made(rows)[0]] == [1.5, 1.0]


@pytest.mark.parametrize(
    ("death", "endings", "late"),
    [
        ("1970-01-13 21:00:00", ["home", "died", "home"], [False, False, True]),
        ("1970-01-11", ["home", "died", "home"], [False, False, True]),
        ("1970-01-16", ["home", "home", "home"], [False, False, True]),
        ("1970-04-01", ["home", "home", "home"], [False, False, False]),
        ("1970-01-21", ["home", "home", "died"], [False, False, False]),
    ],
)
def test_a_death_goes_to_the_visit_of_its_day(death: str, endings: list[str], late: list[bool]) -> None:
    """Visits on days 0, 10 to 12 and 20: a death between them belongs to none, and what begins later is marked."""
    begins = ["1970-01-01", "1970-01-11 12:00:00", "1970-01-21 12:00:00"]
    rows = [row("in", "out", start, days) for start, days in zip(begins, ["NULL", "2", "0"], strict=True)]
    found, _, _ = made(rows, death)
    assert [stay[2] for stay in found] == endings
    assert [stay[4] for stay in found] == late
