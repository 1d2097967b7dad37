"""Files that judges are given."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.errors import InputError
from adapcla.files import read_json, sha256_of
from adapcla.io import writers as export
from adapcla.judges.inputs import Trial, croissant, flat, subject_in, task_of

SEX = {"sex": Attribute(np.array([0, -1], dtype=np.int16), ("F", "M"))}
COHORT = Cohort.of([[["A", "B"], ["A"]], [["C"]]], days=np.array([0, 9, 0], dtype=np.int32), attributes=SEX)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_flat_columns_by_hand():
    columns = flat(COHORT, ["A", "Z"], ["sex"], days=True)
    assert columns["visits"] == [2, 1]
    assert columns["different_codes"] == [2, 1]
    assert columns["days"] == [9, 0]
    assert columns["sex"] == ["F", "unknown"]
    assert columns["code_A"] == ["yes", "no"]
    assert columns["code_Z"] == ["no", "no"]


def test_tables_have_the_same_columns_and_their_kinds(tmp_path):
    Trial(COHORT, COHORT, COHORT.subset([0])).write(tmp_path, "table", {"dqd": "there"})
    tables = {name: rows(tmp_path / f"{name}.csv") for name in ("subject", "train", "test")}
    assert {name: len(table) for name, table in tables.items()} == {"subject": 2, "train": 2, "test": 1}
    kinds = read_json(tmp_path / "columns.json")
    assert all(set(table[0]) == set(kinds) for table in tables.values())
    assert (kinds["visits"], kinds["sex"], kinds["code_A"]) == ("number", "category", "category")
    assert read_json(tmp_path / "task.json")["dqd"] == "there"


@pytest.mark.parametrize(("form", "file"), [("meds", "metadata/codes.parquet"), ("omop", "person.csv")])
def test_folders_of_other_formats_are_exports(tmp_path, form, file):
    Trial(COHORT, COHORT, COHORT).write(tmp_path, form, {})
    assert (tmp_path / "subject" / file).is_file()


def test_the_description_of_a_table_names_its_columns_and_its_hash(tmp_path):
    Trial(COHORT, COHORT, COHORT).write(tmp_path, "croissant", {})
    said = croissant(tmp_path / "subject.csv")
    assert said == read_json(tmp_path / "croissant.json")
    assert said["distribution"][0]["sha256"] == sha256_of(tmp_path / "subject.csv")
    assert [field["name"] for field in said["recordSet"][0]["field"]] == list(rows(tmp_path / "subject.csv")[0])


def test_a_task_is_the_commonest_code_and_what_comes_after():
    assert task_of(Cohort.of([[["A"], ["B"]], [["A"], ["B"]], [["A"], ["C"]]])) == {"index": "A", "outcome": "B"}
    assert task_of(Cohort.of([[["A"]]])) == {}


def test_a_cohort_and_a_release_are_both_taken_and_nothing_else(tmp_path):
    COHORT.save(tmp_path / "cohort")
    assert subject_in(tmp_path / "cohort").fingerprint == COHORT.fingerprint
    export.write(COHORT, tmp_path / "release" / "csv", "csv")
    assert subject_in(tmp_path / "release").fingerprint == COHORT.fingerprint
    with pytest.raises(InputError, match="neither a cohort nor a release"):
        subject_in(tmp_path)
