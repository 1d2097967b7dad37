"""Which numbers are read: labs by use or by name, one unit for each, one value of a visit for each way of choosing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.io import Options
from adapcla.io.assembly import assemble
from adapcla.io.workbench import Workbench

#: visit, code, value, unit, moment
Row = tuple[str, str, str, str, str]


def read(rows: list[Row], **options: object) -> Cohort:
    """The cohort of one patient with these values, in the visits 1 and 2, which also hold a plain code."""
    names = ("visit", "code", "value", "unit", "moment")
    batch = pa.record_batch({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)})
    with Workbench() as bench:
        visits = "VALUES ('1', '1', '', '', ''), ('1', '2', '', '', '')"
        bench.run(f"CREATE TABLE visits AS SELECT * FROM ({visits}) t(patient, visit, date, day, sequence)")
        code = "'A' AS code, '' AS system, 'diagnosis' AS domain"
        bench.run(f"CREATE VIEW entries AS SELECT patient, visit, {code} FROM visits")
        bench.add("rows", [batch])
        bench.run(
            """CREATE VIEW results AS SELECT '1' AS patient, visit, code, 'LAB' AS system, 'lab' AS domain, unit,
               number_of(value) AS value, try_cast(moment AS DOUBLE) AS moment FROM rows"""
        )
        asked = Options(domains=("dx", "lab"), **options)
        return assemble(bench, source="hand", visit_rule="by hand", options=asked, results=True)


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
    cohort = read([("1", "=x", "1", "g", "1"), ("1", "y", "1", "g", "1")])
    assert cohort.card["dropped"] == {"values of codes of a form that is not allowed": 1}


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
    """`entries` say LAB/x of visit 2 too, without a number: it is left out and counted."""
    both = "FROM (VALUES ('1'), ('2')) t(visit)"
    lab = "'x' AS code, 'LAB' AS system, 'lab' AS domain"
    with Workbench() as bench:
        bench.run(f"CREATE VIEW visits AS SELECT '1' AS patient, visit, '' AS date, '' AS day, '' AS sequence {both}")
        bench.run(f"CREATE VIEW entries AS SELECT '1' AS patient, visit, {lab} {both}")
        bench.run(
            f"""CREATE VIEW results AS SELECT '1' AS patient, visit, {lab}, 'g' AS unit, CAST(3 AS FLOAT) AS value,
                CAST(1 AS DOUBLE) AS moment {both} WHERE visit = '1'"""
        )
        cohort = assemble(bench, source="hand", visit_rule="by hand", options=Options(domains=("lab",)), results=True)
    assert values(cohort) == [{"LAB/x": 3.0}]
    assert cohort.card["dropped"] == {"codes of a number without one": 1, "visits without a code": 1}
