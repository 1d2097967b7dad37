"""Which numbers are read: labs by use or by name, one unit for each, one value of a visit for each way of choosing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.io import ReadOptions
from adapcla.io.assemble import SourceTables, assemble
from adapcla.io.database import Database

#: visit, code, value, unit, moment
Row = tuple[str, str, str, str, str]
#: The visits 1 and 2 of one patient, with a plain code each.
_VISITS = """SELECT '1' AS patient, visit, '' AS start, '' AS "end", '' AS day, '' AS sequence, '' AS kind,
    '' AS discharge, false AS died, CAST(NULL AS DOUBLE) AS length_days FROM (VALUES ('1'), ('2')) t(visit)"""
_PLAIN = """SELECT '1' AS patient, visit, '' AS time, '' AS system, 'A' AS code, 'diagnosis' AS domain,
    false AS measured, '' AS value, '' AS unit FROM (VALUES ('1'), ('2')) t(visit)"""


def read(rows: list[Row], plain: str = _PLAIN, **options: object) -> Cohort:
    """The cohort of one patient with these values, in the visits 1 and 2, which also hold a plain code."""
    names = ("visit", "code", "value", "unit", "moment")
    with Database() as db:
        columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)}
        db.add("labs", pa.table(columns))
        events = f"""{plain} UNION ALL SELECT '1', visit, moment, 'LAB', code, 'lab', true, value, unit FROM labs"""
        found = SourceTables(visits=_VISITS, events=events, visit_rule="by hand")
        return assemble(db, found, ReadOptions(**{"domains": ("dx", "lab"), **options}), "hand")


def values(cohort: Cohort) -> list[dict[str, float]]:
    """The numbers of each visit by token."""
    assert cohort.values is not None
    return [
        {
            cohort.vocabulary.tokens[code]: float(value)
            for code, value in zip(cohort.codes[a:b], cohort.values[a:b], strict=True)
            if not np.isnan(value)
        }
        for a, b in zip(cohort.visit_starts[:-1], cohort.visit_starts[1:], strict=True)
    ]


def test_the_last_value_by_time_and_the_higher_of_one_time() -> None:
    rows = [("1", "x", "3", "g", "5"), ("1", "x", "9", "g", "1"), ("2", "x", "4", "g", "7"), ("2", "x", "8", "g", "7")]
    assert values(read(rows)) == [{"LAB/x": 3.0}, {"LAB/x": 8.0}]
    assert values(read(rows[::-1])) == [{"LAB/x": 3.0}, {"LAB/x": 8.0}]
    first = values(read(rows, lab_values=("first",)))
    assert first == [{"LAB/x": 9.0}, {"LAB/x": 4.0}]


def test_a_value_without_a_time_comes_before_those_with_one() -> None:
    assert values(read([("1", "x", "3", "g", ""), ("1", "x", "2", "g", "-5")]))[0] == {"LAB/x": 2.0}


def test_one_unit_for_a_lab_whatever_its_case_and_the_rest_is_counted() -> None:
    rows = [("1", "x", "3", "mg/dL", "1"), ("2", "x", "4", "MG / DL", "1"), ("2", "x", "99", "mmol/L", "2")]
    cohort = read(rows)
    assert values(cohort) == [{"LAB/x": 3.0}, {"LAB/x": 4.0}]
    assert cohort.card["dropped"]["values in another unit than most of their kind"] == 1
    assert cohort.vocabulary.codes[cohort.vocabulary.index["LAB/x"]].unit in ("mg/dL", "MG / DL")


def test_what_has_no_unit_has_the_unit_one() -> None:
    cohort = read([("1", "x", "3", "UNK", "1")])
    assert cohort.vocabulary.codes[cohort.vocabulary.index["LAB/x"]].unit == "1"


@pytest.mark.parametrize("text", ["", "high", "<5", "nan", "inf", "1e99", "5,4", "0x10", "1_000", "--1"])
def test_what_is_no_number_gives_no_entry_and_is_counted(text: str) -> None:
    cohort = read([("1", "x", text, "g", "1"), ("2", "x", "-.5e1", "g", "1")])
    assert values(cohort) == [{}, {"LAB/x": -5.0}]
    assert cohort.card["dropped"] == {"values that are no number": 1}


def test_values_of_unknown_visits_are_counted() -> None:
    cohort = read([("7", "x", "1", "g", "1"), ("", "x", "1", "g", "1"), ("1", "x", "2", "g", "1")])
    assert cohort.card["dropped"] == {
        "values without a patient or visit id": 1,
        "values of visits that are not known": 1,
    }


def test_a_code_of_another_form_is_counted() -> None:
    cohort = read([("1", "x\x07", "1", "g", "1"), ("1", "y", "1", "g", "1")])
    assert cohort.card["dropped"] == {"values of codes of characters that cannot be printed, or too long": 1}


def test_labs_by_use_by_name_and_from_a_file(tmp_path: Path) -> None:
    rows = [("1", "x", "1", "g", "1"), ("2", "x", "1", "g", "1"), ("1", "7", "2", "g", "1"), ("1", "z", "3", "g", "1")]
    listed = tmp_path / "labs.txt"
    listed.write_text("z\n\nLAB/7\n", encoding="utf-8")
    asked = {"1": ["x"], "all": ["7", "x", "z"], "LAB/7": ["7"], "x,z": ["x", "z"], str(listed): ["7", "z"]}
    for labs, tokens in asked.items():
        cohort = read(rows, labs=labs)
        assert [token for token in cohort.vocabulary.tokens if token != "A"] == [f"LAB/{name}" for name in tokens]
    with pytest.raises(UsageError, match="--labs nothing"):
        read(rows, labs="nothing")


def test_a_plain_code_of_the_same_name_gives_way() -> None:
    """The codes say LAB/x of visit 2 too, without a number: it is left out and counted."""
    plain = _PLAIN.replace("'' AS system, 'A' AS code, 'diagnosis'", "'LAB' AS system, 'x' AS code, 'lab'")
    cohort = read([("1", "x", "3", "g", "1")], plain, domains=("lab",))
    assert values(cohort) == [{"LAB/x": 3.0}]
    assert cohort.card["dropped"] == {"codes of a number without one": 1, "visits without a code": 1}


def test_an_item_number_of_two_systems_is_that_of_both() -> None:
    """Of two systems with the same number, the last one was taken."""
    other = _PLAIN.replace(
        "'' AS system, 'A' AS code, 'diagnosis' AS domain,\n    false AS measured, '' AS value",
        "'HOUSE' AS system, 'x' AS code, 'lab' AS domain,\n    true AS measured, '7' AS value",
    )
    cohort = read([("1", "x", "3", "g", "1"), ("1", "y", "3", "g", "1")], other, labs="x")
    assert cohort.vocabulary.tokens == ("HOUSE/x", "LAB/x")
    assert read([("1", "x", "3", "g", "1")], other, labs="LAB/x").vocabulary.tokens == ("LAB/x",)


def test_decimal_commas_are_read_where_the_numbers_say_so() -> None:
    """`5,4` alone is one; `1,234` could be a thousand, so that it stays unread until somebody says what it is."""
    cohort = read([("1", "x", "1.234,5", "g", "1"), ("2", "x", "5", "g", "1")], decimal="comma")
    assert values(cohort) == [{"LAB/x": 1234.5}, {"LAB/x": 5.0}]
    assert values(read([("1", "x", "1,234.5", "g", "1")], decimal="point"))[0] == {"LAB/x": 1234.5}
