"""OMOP tables: columns, types and NOT NULL of the CDM 5.4, keys that point to rows, concepts by a made-up Athena."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Attribute, Code, Cohort, Kind, Origin
from adapcla.errors import InputError
from adapcla.io import writers as export
from adapcla.io.writers import WriteOptions
from adapcla.io.writers.omop import COLUMNS

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
    "drug_era": (*("drug_era_id", "person_id", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),),
    "cdm_source": (
        *("cdm_source_name", "cdm_source_abbreviation", "cdm_holder", "source_release_date", "cdm_release_date"),
        *("cdm_version_concept_id", "vocabulary_version"),
    ),
}
_HEADER = (
    *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept"),
    *("concept_code", "valid_start_date", "valid_end_date", "invalid_reason"),
)
#: concept_id, name, domain, vocabulary, class, standard, code, invalid
_CONCEPTS = (
    (44832386, 'Diabetes "sugar', "Condition", "ICD9CM", "5-dig billing code", "", "250.00", ""),
    (44821949, "Hypertension NOS", "Condition", "ICD9CM", "4-dig billing code", "", "401.9", ""),
    (44821950, "Hypertension, withdrawn", "Condition", "ICD9CM", "4-dig billing code", "", "4019", "D"),
    (44829696, "Bypass status", "Observation", "ICD9CM", "5-dig billing code", "", "V45.81", ""),
    (44820683, "Drug-induced hyperglycaemia", "Condition", "ICD9CM", "4-dig billing code", "", "249.0", ""),
    (2008271, "Cont inv mec ven", "Procedure", "ICD9Proc", "4-dig billing code", "S", "96.71", ""),
    (201826, "Type 2 diabetes mellitus", "Condition", "SNOMED", "Clinical Finding", "S", "44054006", ""),
    (320128, "Essential hypertension", "Condition", "SNOMED", "Clinical Finding", "S", "59621000", ""),
    (4000000, "Old hypertension", "Condition", "SNOMED", "Clinical Finding", "", "1", ""),
    (4188539, "History of bypass", "Observation", "SNOMED", "Context-dependent", "S", "399261000", ""),
    (4214956, "Blood glucose", "Measurement", "SNOMED", "Procedure", "S", "33747003", ""),
)
_RELATIONS = (
    (44832386, 201826, "Maps to", ""),
    (44821949, 320128, "Maps to", ""),
    (44821949, 4000000, "Maps to", ""),
    (44821949, 201826, "Maps to", "D"),
    (44821949, 4188539, "Is a", ""),
    (44829696, 4188539, "Maps to", ""),
    (44820683, 201826, "Maps to", ""),
    (44820683, 4214956, "Maps to", ""),
    (2008271, 2008271, "Maps to", ""),
)


def athena(folder: Path) -> Path:
    """The download, written to a folder."""
    folder.mkdir()
    rows = [(*row[:7], "19700101", "20991231", row[7]) for row in _CONCEPTS]
    text = "\n".join("\t".join(map(str, row)) for row in (_HEADER, *rows))
    (folder / "CONCEPT.csv").write_text(text + "\n", encoding="utf-8")
    header = ("concept_id_1", "concept_id_2", "relationship_id", "valid_start_date", "valid_end_date", "invalid_reason")
    lines = [(*row[:3], "19700101", "20991231", row[3]) for row in _RELATIONS]
    text = "\n".join("\t".join(map(str, row)) for row in (header, *lines))
    (folder / "CONCEPT_RELATIONSHIP.csv").write_text(text + "\n", encoding="utf-8")
    return folder


#: Key → the table whose rows have it.
KEYED = {"person": "person", "visit_occurrence": "visit_occurrence", "concept": "concept"}
BORN = WriteOptions(birth_year=1950)


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
    options = WriteOptions(visit_type="inpatient", vocabulary=vocabulary)
    return export.write(cohort, tmp_path / "o", "omop", options=options)


@pytest.mark.parametrize("name", list(NOT_NULL))
def test_no_required_cell_is_empty(folder: Path, name: str) -> None:
    for row in rows(folder, name):
        assert tuple(row) == COLUMNS[name]
        assert all(row[column] != "" for column in NOT_NULL[name])


def test_every_table_loads_and_keys_point_to_rows(folder: Path) -> None:
    """Persons, visits and source concepts; the standard concepts themselves are Athena's."""
    keys = {name: {row[f"{name}_id"] for row in rows(folder, table)} for name, table in KEYED.items()}
    for table, columns in COLUMNS.items():
        found = rows(folder, table)
        assert list(found[0] if found else columns) == list(columns)
        for row in found:
            for name, value in row.items():
                of = "concept" if name.endswith("_source_concept_id") else name.removesuffix("_id")
                assert value in ("", "0") or of not in keys or name == "concept_id" or value in keys[of], (table, name)
        own = f"{table}_id"
        assert own not in columns or len({row[own] for row in found}) == len(found)


def test_types_of_the_cdm(folder: Path) -> None:
    """Ids and concepts are whole numbers, dates and times are such, in every table."""
    import duckdb

    with duckdb.connect() as base:
        for table, columns in COLUMNS.items():
            for name in columns:
                kind = "BIGINT" if name.endswith(("_id", "_year")) and table not in ("concept", "cdm_source") else ""
                kind = "DATE" if name.endswith("_date") and name != "verbatim_end_date" else kind
                kind = "TIMESTAMP" if name.endswith("_datetime") else kind
                if kind and name != "unique_device_id" and name != "production_id":
                    lost = f"""SELECT count(*) FROM read_csv('{folder / table}.csv', all_varchar = true, header = true)
                        WHERE {name} IS NOT NULL AND try_cast({name} AS {kind}) IS NULL"""
                    assert base.execute(lost).fetchone() == (0,), (table, name)


def test_persons_visits_periods_and_deaths(folder: Path) -> None:
    """65 years on the first day of 2000; the first patient's visits are 20 days apart, and she died in the last."""
    people = rows(folder, "person")
    assert [(row["gender_concept_id"], row["year_of_birth"]) for row in people] == [("8532", "1935"), ("8507", "1935")]
    assert {row["visit_concept_id"] for row in rows(folder, "visit_occurrence")} == {"9201"}
    periods = rows(folder, "observation_period")
    assert [row["observation_period_end_date"] for row in periods] == ["2000-01-21", "2000-01-01"]
    assert [(row["person_id"], row["death_date"]) for row in rows(folder, "death")] == [("1000000000", "2000-01-21")]


def test_without_a_vocabulary_codes_with_a_system_are_concepts_of_ones_own(tmp_path: Path) -> None:
    cohort = Cohort.of([[["ICD9CM/4019", "Q"]]], [Code.of("4019", "ICD9CM"), "Q"])
    folder = export.write(cohort, tmp_path / "o", "omop", options=BORN)
    found = rows(folder, "condition_occurrence")
    assert [(row["condition_concept_id"], row["condition_source_value"]) for row in found] == [
        ("0", "ICD9CM/4019"),
        ("0", "Q"),
    ]
    assert found[1]["condition_source_concept_id"] == "0"
    (concept,) = rows(folder, "concept")
    assert concept["concept_id"] == found[0]["condition_source_concept_id"]
    assert (concept["concept_name"], concept["standard_concept"]) == ("Unspecified essential hypertension", "")
    assert rows(folder, "condition_era") == [] and rows(folder, "drug_era") == []
    assert rows(folder, "visit_occurrence")[0]["visit_concept_id"] == "0"


def test_with_a_vocabulary_codes_go_to_the_tables_of_their_standard_concepts(tmp_path: Path) -> None:
    """V45.81 is an observation; 249.0 is a condition and a measurement; 038.9 is not listed and stays a condition."""
    tokens = ["0389", "2490", "25000", "4019", "V4581"]
    options = WriteOptions(birth_year=1950, vocabulary=athena(tmp_path / "v"))
    cohort = Cohort.of([[tokens]])
    folder = export.write(cohort, tmp_path / "o", "omop", options=options)
    found = {
        (row[f"{stem}_source_value"], int(row[f"{stem}_concept_id"]), int(row[f"{stem}_source_concept_id"]))
        for name, stem in (("condition_occurrence", "condition"), ("observation",) * 2, ("measurement",) * 2)
        for row in rows(folder, name)
    }
    assert found == {
        ("0389", 0, 0),
        ("2490", 201826, 44820683),
        ("2490", 4214956, 44820683),
        ("25000", 201826, 44832386),
        ("4019", 320128, 44821949),
        ("V4581", 4188539, 44829696),
    }
    assert [row["observation_source_value"] for row in rows(folder, "observation")] == ["V4581"]
    assert sorted(row["condition_concept_id"] for row in rows(folder, "condition_era")) == ["201826", "320128"]
    concepts = {row["concept_id"]: row for row in rows(folder, "concept")}
    assert sorted(concepts) == ["44820683", "44821949", "44829696", "44832386"]
    assert concepts["44832386"]["concept_name"] == 'Diabetes "sugar'
    assert concepts["44832386"]["valid_end_date"] == "2099-12-31"


def test_eras_join_occurrences_within_thirty_days_of_one_person_and_concept(tmp_path: Path) -> None:
    """Days 0, 30 and 61 of one condition are two eras, also where two codes mean it; the drug was given on two days."""
    codes = [Code.of("25000", "ICD9CM"), Code.of("2490", "ICD9CM"), Code.of("4019", "ICD9CM")]
    first, second, other = (code.token for code in codes)
    drug = Code.of("96.71", "ICD9Proc", domain="drug")
    cohort = Cohort.of(
        [[[first], [second, other], [first]], [[first, drug.token], [drug.token]]],
        [*codes, drug],
        days=np.array([0, 30, 61, 0, 4], dtype=np.int32),
    )
    folder = athena(tmp_path / "v")
    path = folder / "CONCEPT.csv"
    path.write_text(path.read_text().replace("Cont inv mec ven\tProcedure", "Cont inv mec ven\tDrug"))
    out = export.write(cohort, tmp_path / "o", "omop", options=WriteOptions(birth_year=1950, vocabulary=folder))
    assert [tuple(row.values())[1:] for row in rows(out, "condition_era")] == [
        ("1000000000", "201826", "2000-01-01", "2000-01-31", "2"),
        ("1000000000", "201826", "2000-03-02", "2000-03-02", "1"),
        ("1000000000", "320128", "2000-01-31", "2000-01-31", "1"),
        ("1000000001", "201826", "2000-01-01", "2000-01-01", "1"),
    ]
    assert [tuple(row.values())[1:] for row in rows(out, "drug_era")] == [
        ("1000000001", "2008271", "2000-01-01", "2000-01-05", "2", "3"),
    ]


def test_patients_of_unknown_age_are_left_out_and_counted_or_get_the_year_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age = {"age_band": Attribute(np.array([0, 1, -1], dtype=np.int16), ("60-69", "unclear"))}
    cohort = Cohort.of([[["A"]], [["B"]], [["B"]]], attributes=age)
    folder = export.write(cohort, tmp_path / "o", "omop")
    assert "2 patients are left out" in capsys.readouterr().err
    assert [row["year_of_birth"] for row in rows(folder, "person")] == ["1935"]
    whole = export.write(cohort, tmp_path / "w", "omop", options=BORN)
    assert [row["year_of_birth"] for row in rows(whole, "person")] == ["1935", "1950", "1950"]
    assert "2 of 3 with 1950 in place" in rows(whole, "cdm_source")[0]["source_description"]


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


def test_a_vocabulary_without_its_files_and_a_file_without_a_column_are_named(tiny: Cohort, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"CONCEPT\.csv"):
        export.write(tiny, tmp_path / "o", "omop", options=replace(BORN, vocabulary=tmp_path / "empty"))
    path = athena(tmp_path / "v") / "CONCEPT.csv"
    path.write_text(path.read_text().replace("standard_concept", "standard"))
    with pytest.raises(InputError, match="standard_concept"):
        export.write(tiny, tmp_path / "o", "omop", options=replace(BORN, vocabulary=tmp_path / "v"))
    assert not (tmp_path / "o").exists()


def test_kinds_endings_lengths_values_and_deaths_of_a_whole_record(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "o", "omop", options=replace(BORN, visit_type="outpatient"))
    visits = rows(folder, "visit_occurrence")
    assert [row["visit_concept_id"] for row in visits] == ["9201", "0", "9202", "9201"]
    assert [row["visit_source_value"] for row in visits] == [
        "KIND/elective",
        "KIND/home",
        "outpatient",
        "KIND/inpatient",
    ]
    assert [row["discharged_to_concept_id"] for row in visits] == ["8536", "", "0", "0"]
    assert visits[2]["discharged_to_source_value"] == "END/died"
    assert [row["visit_end_date"] for row in visits] == ["2000-01-04", "2000-01-06", "2000-01-10", "2000-01-01"]
    (death,) = rows(folder, "death")
    assert death["death_date"] == "2000-01-10"
    (glucose,) = rows(folder, "measurement")
    assert (glucose["value_as_number"], glucose["unit_source_value"]) == ("5.4", "mg/dL")


def test_attributes_are_observations_without_a_visit(tmp_path: Path) -> None:
    ward = {"ward": Attribute(np.array([0, -1], dtype=np.int16), ("=1 West",))}
    folder = export.write(Cohort.of([[["A"]], [["A"]]], attributes=ward), tmp_path / "o", "omop", options=BORN)
    (row,) = rows(folder, "observation")
    assert (row["observation_source_value"], row["value_as_string"]) == ("ward", "'=1 West")
    assert (row["person_id"], row["visit_occurrence_id"]) == ("1000000000", "")
