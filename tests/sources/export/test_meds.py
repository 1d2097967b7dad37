"""MEDS as the standard has it: validated by its own package, sorted, every code listed, nobody in two files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from meds.schema import CodeMetadataSchema, DataSchema, DatasetMetadataSchema, SubjectSplitSchema

from adapcla.records import Cohort, Kind, Origin
from adapcla.sources import export
from adapcla.sources.export.meds import FIRST_SUBJECT


@pytest.fixture
def folder(tiny_full: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("adapcla.sources.export.rows.blocks.__defaults__", (2,))
    return export.write(tiny_full, tmp_path / "m", "meds")


def test_the_package_of_the_standard_accepts_every_file(folder: Path) -> None:
    for path in sorted((folder / "data").iterdir()):
        table = pq.read_table(path)
        DataSchema.validate(table)
        assert table.schema.field("code").type == pa.string()
    CodeMetadataSchema.validate(pq.read_table(folder / "metadata" / "codes.parquet"))
    SubjectSplitSchema.validate(pq.read_table(folder / "metadata" / "subject_splits.parquet"))
    DatasetMetadataSchema.validate(json.loads((folder / "metadata" / "dataset.json").read_text()))


def test_subjects_are_contiguous_sorted_and_in_one_file(folder: Path) -> None:
    tables = [pq.read_table(path) for path in sorted((folder / "data").iterdir())]
    assert len(tables) == 2
    subjects = [table["subject_id"].to_pylist() for table in tables]
    assert not set(subjects[0]) & set(subjects[1])
    assert sorted(set(subjects[0] + subjects[1])) == [FIRST_SUBJECT, FIRST_SUBJECT + 1, FIRST_SUBJECT + 2]
    for table in tables:
        rows = list(zip(table["subject_id"].to_pylist(), table["time"].to_pylist(), strict=True))
        keys = [(subject, time is not None, str(time)) for subject, time in rows]
        assert keys == sorted(keys)


def test_every_code_used_is_listed_with_its_description(folder: Path) -> None:
    listed = pq.read_table(folder / "metadata" / "codes.parquet")
    used = {code for path in (folder / "data").iterdir() for code in pq.read_table(path)["code"].to_pylist()}
    assert used <= set(listed["code"].to_pylist())
    assert dict(zip(listed["code"].to_pylist(), listed["description"].to_pylist(), strict=True))["B"] == "Beta"


def test_the_dataset_says_what_it_is(tiny: Cohort, tmp_path: Path) -> None:
    """Only patients that are nobody are called synthetic, and those of whom nothing is known are called so."""
    names = {}
    for kind in Kind:
        folder = export.write(replace(tiny, card=Origin(kind).as_card()), tmp_path / kind, "meds")
        names[kind] = json.loads((folder / "metadata" / "dataset.json").read_text())["dataset_name"]
    assert [kind for kind in Kind if "SYNTHETIC" in names[kind]] == [Kind.SYNTHETIC, Kind.PLANTED]
    assert "Source data" in names[Kind.REAL] and "unknown origin" in names[Kind.UNKNOWN]
