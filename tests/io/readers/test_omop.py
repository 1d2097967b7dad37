"""OMOP tables: which name a code gets, where a row without a visit goes, and headers and ids of every spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.io.fixtures import write_csv
from tests.io.whole import WHOLES

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io import writers as export

CONDITION = (
    "condition_occurrence_id",
    "person_id",
    "condition_concept_id",
    "condition_start_date",
    "visit_occurrence_id",
    "condition_source_value",
    "condition_source_concept_id",
)


def dataset(folder: Path, rows: list[tuple[str, ...]], upper: bool = False) -> Path:
    """Two persons; visit 12 of person 1 begins before visit 11."""

    def header(*names: str) -> tuple[str, ...]:
        return tuple(name.upper() for name in names) if upper else names

    write_csv(
        folder / "person.csv",
        header("person_id", "gender_concept_id", "year_of_birth", "gender_source_value"),
        [("1", "8532", "1950", ""), ("2", "0", "", "male")],
    )
    write_csv(
        folder / "visit_occurrence.csv",
        header("visit_occurrence_id", "person_id", "visit_start_date"),
        [("11", "1", "2020-05-01"), ("12", "1", "2020-01-01"), ("21", "2", "2020-01-01")],
    )
    write_csv(folder / "condition_occurrence.csv", header(*CONDITION), rows)
    return folder


def add_concepts(folder: Path) -> None:
    write_csv(
        folder / "concept.csv",
        ("concept_id", "concept_name", "vocabulary_id", "concept_code"),
        [
            ("201826", "Type 2 diabetes mellitus", "SNOMED", "44054006"),
            ("45561952", "Type 2 diabetes, here", "ICD10CM", "E11.9"),
            ("999", "nobody's", "Odd Name", "x"),
        ],
    )


ROWS = [
    ("1", "1", "201826", "2020-05-01", "11", "E11.9", "45561952"),
    ("2", "1", "201826", "2020-01-01", "12", "E11.9", "0"),
    ("3", "2", "77", "2020-01-01", "21", "LOCAL.1", "88"),
    ("4", "2", "77", "2020-01-02", "21", "", ""),
    ("5", "2", "0", "2020-01-02", "21", "", ""),
    ("6", "2", "999.0", "2020-03-03", "", "", ""),
]


@pytest.mark.parametrize("upper", [False, True])
def test_a_code_is_named_by_source_concept_then_concept_then_value_then_number(tmp_path: Path, upper: bool) -> None:
    """Row 6 has no visit and goes to its day; row 5 has nothing and is counted."""
    add_concepts(dataset(tmp_path, ROWS, upper))
    cohort = read("omop", tmp_path)
    assert list(cohort.patients()) == [
        [["SNOMED/44054006"], ["ICD10CM/E11.9"]],
        [["LOCAL.1", "OMOP/77"], ["Odd-Name/x"]],
    ]
    assert cohort.days.tolist() == [0, 121, 0, 62]
    assert cohort.card["dropped"] == {"empty code cells": 1}
    assert cohort.card["codes without a visit, by day"] == 1
    assert sum(cohort.card["code names"].values()) == 5
    named = {code.token: code.description for code in cohort.vocabulary.codes}
    assert named["SNOMED/44054006"] == "Type 2 diabetes mellitus"
    sex, age = cohort.attributes["sex"], cohort.attributes["age_band"]
    assert [sex.categories[v] for v in sex.values] == ["F", "M"]
    assert [age.categories[v] if v >= 0 else "" for v in age.values] == ["70-79", ""]


def test_without_concepts_the_source_value_and_the_system_of_the_user_name_a_code(tmp_path: Path) -> None:
    dataset(tmp_path, ROWS[:2])
    cohort = read("omop", tmp_path, system="ICD10CM")
    assert list(cohort.patients()) == [[["ICD10CM/E11.9"], ["ICD10CM/E11.9"]]]


def test_a_visit_that_the_table_lacks_begins_with_its_first_code(tmp_path: Path) -> None:
    rows = [("1", "1", "0", "2019-12-01", "99", "A", ""), ("2", "1", "0", "2020-01-01", "12.0", "B", "")]
    cohort = read("omop", dataset(tmp_path, rows))
    assert list(cohort.patients()) == [[["A"], ["B"]]]
    assert cohort.days.tolist() == [0, 31]


def test_procedures_and_drugs_on_request(tmp_path: Path) -> None:
    dataset(tmp_path, ROWS[:1])
    write_csv(
        tmp_path / "procedure_occurrence.csv",
        ("person_id", "procedure_concept_id", "procedure_date", "visit_occurrence_id", "procedure_source_value"),
        [("1", "0", "2020-05-01", "11", "P1")],
    )
    with pytest.raises(InputError, match="drug_exposure"):
        read("omop", tmp_path, domains=("dx", "px", "rx"))
    cohort = read("omop", tmp_path, domains=("dx", "px"))
    assert {code.token: code.domain for code in cohort.vocabulary.codes} == {"E11.9": "diagnosis", "P1": "procedure"}


def test_a_folder_of_shards_is_one_table(tmp_path: Path) -> None:
    dataset(tmp_path, ROWS[:1])
    (tmp_path / "condition_occurrence.csv").unlink()
    for number, row in enumerate(ROWS[:2]):
        write_csv(tmp_path / "condition_occurrence" / f"part{number}.csv", CONDITION, [row])
    assert read("omop", tmp_path).n_visits == 2


def test_an_export_is_read_as_anybodys_data(tiny_full: Cohort, tmp_path: Path) -> None:
    """The concept table then names the codes: system and code instead of the token."""
    export.write(tiny_full, tmp_path / "o", "omop", options=export.WriteOptions(birth_year=1950))
    found = read("omop", tmp_path / "o")
    assert list(found.patients()) == [[["SYS/A", "SYS/B"], ["SYS/B"]], [["SYS/A", "SYS/B"], ["SYS/A"]]]
    assert found.days.tolist() == [0, 30, 0, 7]


def test_a_bound_of_a_value_is_no_value(tmp_path: Path) -> None:
    """The second measurement says less than 5, the third equals 5."""
    folder = WHOLES["omop"](tmp_path / "data").root
    header = ("person_id", "visit_occurrence_id", "measurement_concept_id", "value_as_number", "operator_concept_id")
    rows = [("1", "11", "5", "7", ""), ("1", "12", "5", "5", "4171756"), ("2", "21", "5", "5", "4172703")]
    write_csv(folder / "measurement.csv", header, rows)
    cohort = read("omop", folder, domains=("lab",))
    assert cohort.values is not None and cohort.values.tolist() == [7, 5]
    assert cohort.card["dropped"]["values that are no number"] == 1
