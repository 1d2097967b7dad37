"""MEDS as the standard has it: validated by its own package, sorted, every code listed, nobody in two files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from meds.schema import CodeMetadataSchema, DataSchema, DatasetMetadataSchema, SubjectSplitSchema

from adapcla.data import Attribute, Cohort, Kind, Origin
from adapcla.data.provenance import Part
from adapcla.errors import InputError
from adapcla.io import writers as export
from adapcla.io.options import MedsSplit, WriteOptions
from adapcla.io.writers.meds import _SPLIT_OF_PART
from adapcla.io.writers.tables import FIRST_PATIENT


@pytest.fixture
def folder(tiny_full: Cohort, tmp_path: Path) -> Path:
    return export.write(tiny_full, tmp_path / "m", "meds")


def tables(folder: Path) -> list[pa.Table]:
    return [pq.ParquetFile(path).read() for path in sorted((folder / "data").rglob("*.parquet"))]


def events(folder: Path) -> list[tuple[int, str | None, str]]:
    """(subject, time, code) of every row, subjects counted from 0."""
    return [
        (row["subject_id"] - FIRST_PATIENT, row["time"] and str(row["time"]), row["code"])
        for table in tables(folder)
        for row in table.to_pylist()
    ]


def test_the_package_of_the_standard_accepts_every_file(folder: Path) -> None:
    for table in tables(folder):
        DataSchema.validate(table)
        assert table.schema.field("code").type == pa.string()
        assert table.schema.field("numeric_value").type == pa.float32()
    CodeMetadataSchema.validate(pq.read_table(folder / "metadata" / "codes.parquet"))
    SubjectSplitSchema.validate(pq.read_table(folder / "metadata" / "subject_splits.parquet"))
    DatasetMetadataSchema.validate(json.loads((folder / "metadata" / "dataset.json").read_text()))


def test_subjects_are_contiguous_sorted_and_in_one_file(folder: Path) -> None:
    found = tables(folder)
    subjects = [set(table["subject_id"].to_pylist()) for table in found]
    assert sum(map(len, subjects)) == len(set.union(*subjects)) == 3
    for table in found:
        rows = list(zip(table["subject_id"].to_pylist(), table["time"].to_pylist(), strict=True))
        keys = [(subject, time is not None, str(time)) for subject, time in rows]
        assert keys == sorted(keys)


def test_the_folder_of_a_subject_is_its_split(tmp_path: Path) -> None:
    folder = export.write(Cohort.of([[["A"]]] * 50), tmp_path / "m", "meds")
    listed = pq.read_table(folder / "metadata" / "subject_splits.parquet").to_pylist()
    by_list = {(row["subject_id"], row["split"]) for row in listed}
    by_folder = {
        (subject, path.parent.name)
        for path in (folder / "data").rglob("*.parquet")
        for subject in pq.ParquetFile(path).read()["subject_id"].to_pylist()
    }
    assert by_list == by_folder and {split for _, split in by_list} == {"train", "tuning", "held_out"}


@pytest.mark.parametrize(
    ("origin", "asked", "split"),
    [
        *((Origin(Kind.REAL, (Part("w", 9, 4, 0.1, part),)), None, split) for part, split in _SPLIT_OF_PART.items()),
        (Origin(Kind.SYNTHETIC), None, "train"),
        (Origin(Kind.SYNTHETIC), "held_out", "held_out"),
    ],
)
def test_a_part_is_one_split_and_synthetic_patients_train(
    origin: Origin, asked: MedsSplit | None, split: str, tmp_path: Path
) -> None:
    cohort = Cohort.of([[["A"]]] * 20, card=origin.as_card())
    folder = export.write(cohort, tmp_path / "m", "meds", options=WriteOptions(split=asked))
    assert set(pq.read_table(folder / "metadata" / "subject_splits.parquet")["split"].to_pylist()) == {split}


def test_births_visits_and_deaths_are_events(tmp_path: Path) -> None:
    """60 to 69 years on the first day of 2000 means 65, born in 1935; two visits of one day halve it."""
    attributes = {
        "age_band": Attribute(np.array([0, -1], dtype=np.int16), ("60-69",)),
        "died": Attribute(np.array([1, 0], dtype=np.int16), ("no", "yes")),
    }
    cohort = Cohort.of([[["A"], ["B"]], [["A"]]], attributes=attributes, days=np.array([0, 0, 0], dtype=np.int32))
    folder = export.write(cohort, tmp_path / "m", "meds", options=WriteOptions(split="train"))
    assert events(folder) == [
        (0, None, "ATTRIBUTE//age_band//60-69"),
        (0, None, "ATTRIBUTE//died//yes"),
        (0, "1935-01-01 00:00:00", "MEDS_BIRTH"),
        (0, "2000-01-01 00:00:00", "ADMISSION"),
        (0, "2000-01-01 06:00:00", "A"),
        (0, "2000-01-01 06:00:00", "DISCHARGE"),
        (0, "2000-01-01 12:00:00", "ADMISSION"),
        (0, "2000-01-01 18:00:00", "B"),
        (0, "2000-01-01 18:00:00", "DISCHARGE"),
        (0, "2000-01-01 18:00:00", "MEDS_DEATH"),
        (1, None, "ATTRIBUTE//died//no"),
        (1, "2000-01-01 00:00:00", "ADMISSION"),
        (1, "2000-01-01 12:00:00", "A"),
        (1, "2000-01-01 12:00:00", "DISCHARGE"),
    ]


def test_a_code_with_the_name_of_an_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ADMISSION"):
        export.write(Cohort.of([[["ADMISSION"]]]), tmp_path / "m", "meds")


def test_every_code_used_is_listed_with_its_description(folder: Path) -> None:
    listed = pq.read_table(folder / "metadata" / "codes.parquet")
    used = {code for _, _, code in events(folder)}
    assert used <= set(listed["code"].to_pylist())
    assert dict(zip(listed["code"].to_pylist(), listed["description"].to_pylist(), strict=True))["B"] == "Beta"


def test_codes_have_titles_and_categories_without_asking(tmp_path: Path) -> None:
    """4019 is hypertension, of category 401; the category is listed with its own title."""
    folder = export.write(Cohort.of([[["4019"]]]), tmp_path / "m", "meds")
    listed = {row["code"]: row for row in pq.read_table(folder / "metadata" / "codes.parquet").to_pylist()}
    assert listed["4019"]["description"] == "Unspecified essential hypertension"
    assert listed["4019"]["parent_codes"] == ["ICD9CM/401"]
    assert listed["ICD9CM/401"]["description"] == "Essential hypertension"
    assert all(row["description"] for row in listed.values())


def test_the_dataset_says_what_it_is(tiny: Cohort, tmp_path: Path) -> None:
    """Only patients that are nobody are called synthetic, and those of whom nothing is known are called so."""
    names = {}
    for kind in Kind:
        folder = export.write(replace(tiny, card=Origin(kind).as_card()), tmp_path / kind, "meds")
        names[kind] = json.loads((folder / "metadata" / "dataset.json").read_text())["dataset_name"]
    assert [kind for kind in Kind if "SYNTHETIC" in names[kind]] == [Kind.SYNTHETIC, Kind.SIMULATED]
    assert "Source data" in names[Kind.REAL] and "unknown origin" in names[Kind.UNKNOWN]


def test_kinds_endings_lengths_and_values_of_a_whole_record(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "m", "meds", options=WriteOptions(split="train"))
    rows = pq.read_table(folder / "data" / "train").to_pylist()
    first = [(str(row["time"]), row["code"], row["numeric_value"]) for row in rows if row["visit_id"] == 0]
    assert first == [
        ("2000-01-01 00:00:00", "ADMISSION//elective", None),
        ("2000-01-04 06:00:00", "ICD9CM/4019", None),
        ("2000-01-04 06:00:00", "LAB/50931", np.float32(5.4)),
        ("2000-01-04 06:00:00", "DISCHARGE//home", None),
    ]
    assert next(row["code"] for row in rows if row["visit_id"] == 2) == "ADMISSION"
    (death,) = [row for row in rows if row["code"] == "MEDS_DEATH"]
    assert str(death["time"])[:16] == "2000-01-10 00:28"
    listed = pq.read_table(folder / "metadata" / "codes.parquet").to_pydict()
    assert {row["code"] for row in rows} <= set(listed["code"])
    assert listed["unit"][listed["code"].index("LAB/50931")] == "mg/dL"


def test_sex_stands_where_readers_of_meds_look_for_it(folder: Path) -> None:
    assert [code for _, time, code in events(folder) if time is None] == ["GENDER//F", "GENDER//M"]
