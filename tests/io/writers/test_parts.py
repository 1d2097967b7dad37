"""Many patients are written in parts: the same patients and rows, ids that never meet, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.io import read, writers
from adapcla.io.simulator import simulate
from adapcla.io.writers import WriteOptions, write

#: Table of OMOP → its column of ids.
IDS = {"visit_occurrence": "visit_occurrence_id", "condition_occurrence": "condition_occurrence_id"}
IDS |= {"observation": "observation_id", "condition_era": "condition_era_id", "person": "person_id"}


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    """Fifty simulated patients, of whom some have no age."""
    made = simulate(patients=50, codes=40, seed=1)
    ages = Attribute(np.resize(np.array([0, 1, -1], dtype=np.int16), made.n_patients), ("40-49", "60-69"))
    return Cohort(
        made.vocabulary, made.codes, made.visit_starts, made.patient_starts, days=made.days,
        attributes={**made.attributes, "age_band": ages}, card=made.card,
    )  # fmt: skip


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PATIENTS_AT_ONCE", 8)


def rows(folder: Path, table: str) -> pl.DataFrame:
    """The rows of a table that stands in one file or in several."""
    files = sorted((folder / table).iterdir()) if (folder / table).is_dir() else list(folder.glob(f"{table}.*"))
    load = pl.read_parquet if files[0].suffix == ".parquet" else pl.read_csv
    return pl.concat([load(file) for file in files], how="vertical_relaxed")


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_flat_tables_in_parts_hold_the_same_rows_and_read_back(to, cohort, tmp_path, in_parts, monkeypatch):
    parts = write(cohort, tmp_path / "parts", to)
    assert len(list((parts / "long").iterdir())) == 7 and (parts / f"vocabulary.{to}").is_file()
    assert read("table", parts).fingerprint == cohort.fingerprint
    monkeypatch.undo()
    one = write(cohort, tmp_path / "one", to)
    for table in ("long", "visits", "patients"):
        assert rows(one, table).equals(rows(parts, table))


def test_meds_in_parts_is_the_same_dataset(cohort, tmp_path, in_parts, monkeypatch):
    parts = write(cohort, tmp_path / "parts", "meds")
    monkeypatch.undo()
    one = write(cohort, tmp_path / "one", "meds")
    for split in ("train", "tuning", "held_out"):
        assert rows(one / "data", split).equals(rows(parts / "data", split).sort("subject_id", maintain_order=True))
    for name in ("subject_splits.parquet", "codes.parquet"):
        assert pl.read_parquet(one / "metadata" / name).equals(pl.read_parquet(parts / "metadata" / name))


def test_omop_in_parts_has_ids_that_never_meet_and_reads_back(cohort, tmp_path, in_parts, monkeypatch):
    parts = write(cohort, tmp_path / "parts", "omop")
    monkeypatch.undo()
    one = write(cohort, tmp_path / "one", "omop")
    for table, column in IDS.items():
        ids = rows(parts, table)[column]
        assert ids.n_unique() == len(ids) == len(rows(one, table))
    assert list(read("omop", parts).patients()) == list(read("omop", one).patients())
    assert (parts / "cdm_source.csv").read_bytes() == (one / "cdm_source.csv").read_bytes()
    everybody = write(cohort, tmp_path / "all", "omop", options=WriteOptions(birth_year=1950))
    assert len(rows(everybody, "person")) == 50 > len(rows(parts, "person"))


def test_an_export_that_fails_in_a_later_part_leaves_nothing(cohort, tmp_path, in_parts, monkeypatch):
    write_part = writers._write_part

    def failing(*given):
        if given[-1] == 3:
            raise KeyboardInterrupt
        write_part(*given)

    monkeypatch.setattr(writers, "_write_part", failing)
    with pytest.raises(KeyboardInterrupt):
        write(cohort, tmp_path / "out", "parquet")
    assert list(tmp_path.iterdir()) == []
