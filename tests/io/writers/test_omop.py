"""OMOP tables: every column that the CDM 5.4 calls NOT NULL is there and filled, and keys point to rows."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.io.writers.test_athena import athena

from adapcla.data import Attribute, Code, Cohort, Kind, Origin
from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.writers import ExportOptions
from adapcla.io.writers.cdm import COLUMNS
from adapcla.io.writers.omop import eras

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
    "death": ("person_id", "death_date"),
    "condition_era": (
        *("condition_era_id", "person_id", "condition_concept_id", "condition_era_start_date"),
        "condition_era_end_date",
    ),
    "domain": ("domain_id", "domain_name", "domain_concept_id"),
    "concept_class": ("concept_class_id", "concept_class_name", "concept_class_concept_id"),
    "relationship": (
        *("relationship_id", "relationship_name", "is_hierarchical", "defines_ancestry", "reverse_relationship_id"),
        "relationship_concept_id",
    ),
    "concept_relationship": (
        *("concept_id_1", "concept_id_2", "relationship_id", "valid_start_date", "valid_end_date"),
    ),
    "vocabulary": ("vocabulary_id", "vocabulary_name", "vocabulary_concept_id"),
    "cdm_source": (
        *("cdm_source_name", "cdm_source_abbreviation", "cdm_holder", "source_release_date", "cdm_release_date"),
        *("cdm_version_concept_id", "vocabulary_version"),
    ),
}
#: Table → table that it points to → columns (OHDSI, CommonDataModel, constraints of version 5.4), among tables written.
#: The three that point back to concept are last, because no database can declare a circle at once.
FOREIGN_KEYS = {
    "concept": {"domain": ("domain_id",), "vocabulary": ("vocabulary_id",), "concept_class": ("concept_class_id",)},
    "relationship": {"concept": ("relationship_concept_id",)},
    "concept_relationship": {"concept": ("concept_id_1", "concept_id_2"), "relationship": ("relationship_id",)},
    "cdm_source": {"concept": ("cdm_version_concept_id",)},
    "person": {
        "concept": (
            *("gender_concept_id", "race_concept_id", "ethnicity_concept_id", "gender_source_concept_id"),
            *("race_source_concept_id", "ethnicity_source_concept_id"),
        )
    },
    "observation_period": {"person": ("person_id",), "concept": ("period_type_concept_id",)},
    "visit_occurrence": {
        "person": ("person_id",),
        "concept": (
            *("visit_concept_id", "visit_type_concept_id", "visit_source_concept_id", "admitted_from_concept_id"),
            "discharged_to_concept_id",
        ),
    },
    "condition_occurrence": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": (
            *("condition_concept_id", "condition_type_concept_id", "condition_status_concept_id"),
            "condition_source_concept_id",
        ),
    },
    "procedure_occurrence": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": (
            *("procedure_concept_id", "procedure_type_concept_id", "modifier_concept_id"),
            "procedure_source_concept_id",
        ),
    },
    "drug_exposure": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": ("drug_concept_id", "drug_type_concept_id", "route_concept_id", "drug_source_concept_id"),
    },
    "device_exposure": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": ("device_concept_id", "device_type_concept_id", "device_source_concept_id", "unit_concept_id"),
    },
    "measurement": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": (
            *("measurement_concept_id", "measurement_type_concept_id", "operator_concept_id", "value_as_concept_id"),
            *("unit_concept_id", "measurement_source_concept_id", "unit_source_concept_id"),
        ),
    },
    "observation": {
        "person": ("person_id",),
        "visit_occurrence": ("visit_occurrence_id",),
        "concept": (
            *("observation_concept_id", "observation_type_concept_id", "value_as_concept_id", "qualifier_concept_id"),
            *("unit_concept_id", "observation_source_concept_id"),
        ),
    },
    "death": {
        "person": ("person_id",),
        "concept": ("death_type_concept_id", "cause_concept_id", "cause_source_concept_id"),
    },
    "condition_era": {"person": ("person_id",), "concept": ("condition_concept_id",)},
    "domain": {"concept": ("domain_concept_id",)},
    "vocabulary": {"concept": ("vocabulary_concept_id",)},
    "concept_class": {"concept": ("concept_class_concept_id",)},
}
CIRCLE = ("domain", "vocabulary", "concept_class")
BORN = ExportOptions(birth_year=1950)


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(params=["plain", "with a vocabulary"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two patients with conditions, a procedure, a drug, an attribute and a death, with and without mappings."""
    listed = [Code.of(code, "ICD9CM") for code in ("25000", "4019", "V4581", "2490", "0389")]
    listed += [Code.of("9671", "ICD9PROC", domain="procedure"), Code.of("x", "DRUG", domain="drug")]
    tokens = [code.token for code in listed]
    attributes = {
        "sex": Attribute(np.array([0, 1], dtype=np.int16), ("F", "M")),
        "age_band": Attribute(np.array([0, 0], dtype=np.int16), ("60-69",)),
        "died": Attribute(np.array([1, -1], dtype=np.int16), ("no", "yes")),
    }
    days = np.array([0, 20, 0], dtype=np.int32)
    cohort = Cohort.of([[tokens, tokens[:2]], [tokens[:2]]], listed, attributes=attributes, days=days)
    vocabulary = athena(tmp_path / "athena") if request.param != "plain" else None
    options = ExportOptions(visit_type="inpatient", vocabulary=vocabulary)
    out = export.write(cohort, tmp_path / "o", "omop", options=options)
    assert read("omop", out).fingerprint == cohort.fingerprint
    return out


@pytest.mark.parametrize("name", list(NOT_NULL))
def test_no_required_cell_is_empty(folder: Path, name: str) -> None:
    for row in rows(folder, name):
        assert tuple(row) == COLUMNS[name]
        assert all(row[column] != "" for column in NOT_NULL[name])


def test_every_table_loads_with_its_keys_declared(folder: Path) -> None:
    """The database refuses the first key that points to nothing; the circle is counted instead."""
    import duckdb

    with duckdb.connect() as base:
        primary = {name: COLUMNS[name][0] for name in COLUMNS if COLUMNS[name][0] == f"{name}_id"}
        for name in (*CIRCLE, *(name for name in FOREIGN_KEYS if name not in CIRCLE)):
            keys = [f"PRIMARY KEY ({primary[name]})"] if name in primary else []
            if name not in CIRCLE:
                keys += [
                    f"FOREIGN KEY ({column}) REFERENCES {other} ({primary[other]})"
                    for other, columns in FOREIGN_KEYS[name].items()
                    for column in columns
                ]
            columns = [f"{column} VARCHAR" for column in COLUMNS[name]]
            base.execute(f"CREATE TABLE {name} ({', '.join([*columns, *keys])})")
            path = folder / f"{name}.csv"
            base.execute(f"INSERT INTO {name} SELECT * FROM read_csv('{path}', all_varchar = true, header = true)")
        for name in CIRCLE:
            lost = f"SELECT count(*) FROM {name} t ANTI JOIN concept c ON c.concept_id = t.{name}_concept_id"
            assert base.execute(lost).fetchone() == (0,)
    assert set(FOREIGN_KEYS) == set(COLUMNS)


def test_persons_visits_periods_and_deaths(folder: Path) -> None:
    """65 years on the first day of 2000; the first patient's visits are 20 days apart, and she died in the last."""
    people = rows(folder, "person")
    assert [(row["gender_concept_id"], row["year_of_birth"]) for row in people] == [("8532", "1935"), ("8507", "1935")]
    assert {row["visit_concept_id"] for row in rows(folder, "visit_occurrence")} == {"9201"}
    periods = rows(folder, "observation_period")
    assert [row["observation_period_end_date"] for row in periods] == ["2000-01-21", "2000-01-01"]
    assert [(row["person_id"], row["death_date"]) for row in rows(folder, "death")] == [("1000000000", "2000-01-21")]


def test_without_a_vocabulary_codes_are_concepts_of_ones_own(tmp_path: Path) -> None:
    folder = export.write(Cohort.of([[["4019"]]]), tmp_path / "o", "omop", options=BORN)
    (row,) = rows(folder, "condition_occurrence")
    assert (row["condition_concept_id"], row["condition_source_value"]) == ("0", "4019")
    (concept,) = [c for c in rows(folder, "concept") if c["concept_id"] == row["condition_source_concept_id"]]
    assert (concept["concept_name"], concept["standard_concept"]) == ("Unspecified essential hypertension", "")
    assert rows(folder, "condition_era") == []
    assert rows(folder, "visit_occurrence")[0]["visit_concept_id"] == "0"


def test_with_a_vocabulary_codes_go_to_the_tables_of_their_standard_concepts(tmp_path: Path) -> None:
    """V45.81 is an observation; 249.0 is a condition and a measurement; 038.9 is not listed and stays a condition."""
    tokens = ["0389", "2490", "25000", "4019", "V4581"]
    options = ExportOptions(birth_year=1950, vocabulary=athena(tmp_path / "v"))
    cohort = Cohort.of([[tokens]])
    folder = export.write(cohort, tmp_path / "o", "omop", options=options)
    found = {
        (row[f"{stem}_source_value"], int(row[f"{stem}_concept_id"]), int(row[f"{stem}_source_concept_id"]))
        for name, stem in (("condition_occurrence", "condition"), ("observation",) * 2, ("measurement",) * 2)
        for row in rows(folder, name)
    }
    assert found == {
        ("0389", 0, 2_000_000_000),
        ("2490", 201826, 44820683),
        ("2490", 4214956, 44820683),
        ("25000", 201826, 44832386),
        ("4019", 320128, 44821949),
        ("V4581", 4188539, 44829696),
    }
    assert [row["observation_source_value"] for row in rows(folder, "observation")] == ["V4581"]
    assert sorted(row["condition_concept_id"] for row in rows(folder, "condition_era")) == ["201826", "320128"]
    assert read("omop", folder).fingerprint == cohort.fingerprint


def test_eras_join_occurrences_within_thirty_days_of_one_person_and_condition() -> None:
    """Days 0, 30 and 61 of one condition are two eras; the same days of others are others."""
    day = np.datetime64("2000-01-01") + np.array([61, 0, 30, 10, 10])
    person, concept, first, last, n = eras(np.array([0, 0, 0, 0, 1]), np.array([7, 7, 7, 8, 7]), day)
    days = [(moment - np.datetime64("2000-01-01")).astype(int).tolist() for moment in (first, last)]
    assert list(zip(person.tolist(), concept.tolist(), *days, n.tolist(), strict=True)) == [
        (0, 7, 0, 30, 2),
        (0, 7, 61, 61, 1),
        (0, 8, 10, 10, 1),
        (1, 7, 10, 10, 1),
    ]


def test_patients_of_unknown_age_are_left_out_and_counted_or_get_the_year_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age = {"age_band": Attribute(np.array([0, 1, -1], dtype=np.int16), ("60-69", "unclear"))}
    cohort = Cohort.of([[["A"]], [["B"]], [["B"]]], attributes=age)
    folder = export.write(cohort, tmp_path / "o", "omop")
    assert "2 patients are left out" in capsys.readouterr().err
    assert [row["year_of_birth"] for row in rows(folder, "person")] == ["1935"]
    assert read("omop", folder).fingerprint == cohort.subset(np.array([0])).fingerprint
    whole = export.write(cohort, tmp_path / "w", "omop", options=BORN)
    assert [row["year_of_birth"] for row in rows(whole, "person")] == ["1935", "1950", "1950"]
    assert "2 of 3 with 1950 in place" in rows(whole, "cdm_source")[0]["source_description"]
    assert read("omop", whole).fingerprint == cohort.fingerprint


def test_where_no_age_is_known_a_year_is_asked_for(tiny: Cohort, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--birth-year"):
        export.write(tiny, tmp_path / "o", "omop")
    assert not (tmp_path / "o").exists()


def test_the_source_says_what_kind_of_patients_these_are(tiny: Cohort, tmp_path: Path) -> None:
    """Real patients, and patients of whom nothing is known, are never called synthetic in any cell."""
    said = {}
    for kind in Kind:
        folder = export.write(replace(tiny, card=Origin(kind).as_card()), tmp_path / kind, "omop", options=BORN)
        said[kind] = rows(folder, "cdm_source")[0]
    short = [said[kind]["cdm_source_abbreviation"] for kind in Kind]
    assert short == ["REAL", "SYNTHETIC", "SYNTHETIC", "UNKNOWN"]
    assert [kind for kind in Kind if "synthetic" in str(said[kind]).lower()] == [Kind.SYNTHETIC, Kind.PLANTED]
    assert "unknown origin" in said[Kind.UNKNOWN]["cdm_source_name"]
