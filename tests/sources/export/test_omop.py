"""OMOP tables: every column that the CDM 5.4 calls NOT NULL is there and filled, and keys point to rows."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapcla.records import Attribute, Cohort, Kind, Origin
from adapcla.sources import export

#: Columns that OMOP CDM 5.4 declares NOT NULL (OHDSI, CommonDataModel, DDL of version 5.4).
NOT_NULL = {
    "person": ("person_id", "gender_concept_id", "year_of_birth", "race_concept_id", "ethnicity_concept_id"),
    "observation_period": (
        *("observation_period_id", "person_id", "observation_period_start_date", "observation_period_end_date"),
        "period_type_concept_id",
    ),
    "visit_occurrence": (
        *("visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_end_date"),
        "visit_type_concept_id",
    ),
    "condition_occurrence": (
        *("condition_occurrence_id", "person_id", "condition_concept_id", "condition_start_date"),
        "condition_type_concept_id",
    ),
    "procedure_occurrence": (
        *("procedure_occurrence_id", "person_id", "procedure_concept_id", "procedure_date"),
        "procedure_type_concept_id",
    ),
    "drug_exposure": (
        *("drug_exposure_id", "person_id", "drug_concept_id", "drug_exposure_start_date", "drug_exposure_end_date"),
        "drug_type_concept_id",
    ),
    "observation": (
        *("observation_id", "person_id", "observation_concept_id", "observation_date"),
        "observation_type_concept_id",
    ),
    "concept": (
        *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "concept_code"),
        *("valid_start_date", "valid_end_date"),
    ),
    "vocabulary": ("vocabulary_id", "vocabulary_name", "vocabulary_concept_id"),
    "cdm_source": (
        *("cdm_source_name", "cdm_source_abbreviation", "cdm_holder", "source_release_date", "cdm_release_date"),
        *("cdm_version_concept_id", "vocabulary_version"),
    ),
}


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def folder(tiny_full: Cohort, tmp_path: Path) -> Path:
    return export.write(tiny_full, tmp_path / "o", "omop")


@pytest.mark.parametrize("name", list(NOT_NULL))
def test_no_required_cell_is_empty(folder: Path, name: str) -> None:
    found = rows(folder, name)
    assert found
    assert all(row[column] != "" for row in found for column in NOT_NULL[name])


def test_keys_are_unique_and_point_to_rows(folder: Path) -> None:
    people = {row["person_id"] for row in rows(folder, "person")}
    visits = {row["visit_occurrence_id"] for row in rows(folder, "visit_occurrence")}
    concepts = {row["concept_id"] for row in rows(folder, "concept")}
    assert (len(people), len(visits), len(concepts)) == (3, 5, 4)
    for name, stem in (
        ("condition_occurrence", "condition"),
        ("procedure_occurrence", "procedure"),
        ("drug_exposure", "drug"),
    ):
        found = rows(folder, name)
        assert len({row[f"{name}_id"] for row in found}) == len(found)
        assert {row["person_id"] for row in found} <= people
        assert {row["visit_occurrence_id"] for row in found} <= visits
        assert {row[f"{stem}_source_concept_id"] for row in found} <= concepts
    observed = rows(folder, "observation")
    assert len({row["observation_id"] for row in observed}) == len(observed)
    assert all(int(key) < 2**31 for key in people | concepts)


def test_the_source_says_what_kind_of_patients_these_are(tiny: Cohort, tmp_path: Path) -> None:
    """Real patients, and patients of whom nothing is known, are never called synthetic in any cell."""
    said = {}
    for kind in Kind:
        folder = export.write(replace(tiny, card=Origin(kind).as_card()), tmp_path / kind, "omop")
        said[kind] = rows(folder, "cdm_source")[0]
    short = [said[kind]["cdm_source_abbreviation"] for kind in Kind]
    assert short == ["REAL", "SYNTHETIC", "SYNTHETIC", "UNKNOWN"]
    assert [kind for kind in Kind if "synthetic" in str(said[kind]).lower()] == [Kind.SYNTHETIC, Kind.PLANTED]
    assert "unknown origin" in said[Kind.UNKNOWN]["cdm_source_name"]


def test_sex_and_age_band_fill_the_person(tmp_path: Path) -> None:
    """The calendar begins in 2000: 60 to 69 years means born in 1940 at the latest; unknown is 0."""
    attributes = {
        "sex": Attribute(np.array([0, 1, -1], dtype=np.int16), ("F", "male")),
        "age_band": Attribute(np.array([0, 1, -1], dtype=np.int16), ("60-69", "unclear")),
    }
    export.write(Cohort.of([[["A"]]] * 3, attributes=attributes), tmp_path / "o", "omop")
    found = rows(tmp_path / "o", "person")
    assert [(row["gender_concept_id"], row["year_of_birth"]) for row in found] == [
        ("8532", "1940"),
        ("8507", "0"),
        ("0", "0"),
    ]
