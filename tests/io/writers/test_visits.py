"""What visits say of themselves, and where each format writes it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from adapcla.data import Cohort
from adapcla.io import writers as export
from adapcla.io.writers.visits import StayCodes, code_of_visit, ended_in_death, lengths


def test_codes_of_stays_are_told_from_others(whole: Cohort) -> None:
    """A code that is called like a kind but is of no choice group is a code like any other."""
    stay = StayCodes.of(whole.vocabulary)
    assert (int(stay.kinds.sum()), int(stay.ends.sum())) == (3, 3)
    plain = Cohort.of([[["KIND/inpatient", "STAY/days"]]])
    assert not StayCodes.of(plain.vocabulary).words.any() and StayCodes.of(plain.vocabulary).length == -1
    assert np.isnan(lengths(plain)).all() and not ended_in_death(plain).any()


def test_kind_length_and_death_of_each_visit(whole: Cohort) -> None:
    tokens = [*whole.vocabulary.tokens, ""]
    kinds = code_of_visit(whole, StayCodes.of(whole.vocabulary).kinds)
    assert [tokens[code] for code in kinds] == ["KIND/elective", "KIND/home", "", "KIND/inpatient"]
    np.testing.assert_allclose(lengths(whole), [3.25, np.nan, 0.02, np.nan], rtol=1e-6)
    assert ended_in_death(whole).tolist() == [True, False]


def test_meds_says_it_in_admissions_and_discharges(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "m", "meds", options=export.ExportOptions(split="train"))
    rows = pq.read_table(folder / "data" / "train").to_pylist()
    first = [(str(row["time"]), row["code"], row["numeric_value"]) for row in rows if row["visit_id"] == 0]
    assert first[0] == ("2000-01-01 00:00:00", "ADMISSION//elective", None)
    assert first[-1] == ("2000-01-04 06:00:00", "DISCHARGE//home", None)
    assert ("2000-01-04 06:00:00", "LAB/50931", np.float32(5.4)) in first
    assert next(row["code"] for row in rows if row["visit_id"] == 2) == "ADMISSION"
    (death,) = [row for row in rows if row["code"] == "MEDS_DEATH"]
    assert str(death["time"])[:16] == "2000-01-10 00:28"
    listed = pq.read_table(folder / "metadata" / "codes.parquet").to_pydict()
    assert {row["code"] for row in rows} <= set(listed["code"])
    assert listed["unit"][listed["code"].index("LAB/50931")] == "mg/dL"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_omop_says_it_in_concepts_dates_and_deaths(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "o", "omop", options=export.ExportOptions(visit_type="outpatient"))
    visits = rows_of(folder / "visit_occurrence.csv")
    assert [row["visit_concept_id"] for row in visits] == ["9201", "0", "9202", "9201"]
    assert [row["visit_source_value"] for row in visits] == [
        "KIND/elective",
        "KIND/home",
        "outpatient",
        "KIND/inpatient",
    ]
    assert [row["discharged_to_concept_id"] for row in visits] == ["8536", "0", "0", "0"]
    assert visits[2]["discharged_to_source_value"] == "END/died"
    assert [row["visit_end_date"] for row in visits] == ["2000-01-04", "2000-01-06", "2000-01-10", "2000-01-01"]
    (death,) = rows_of(folder / "death.csv")
    assert death["death_date"] == "2000-01-10"
    (glucose,) = rows_of(folder / "measurement.csv")
    assert (glucose["value_as_number"], glucose["unit_source_value"]) == ("5.4", "mg/dL")
    concepts = {row["concept_id"] for row in rows_of(folder / "concept.csv")}
    assert {row[name] for row in visits for name in ("visit_concept_id", "discharged_to_concept_id")} <= concepts


def test_fhir_says_it_in_encounters_and_observations(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "f", "fhir")
    encounters = [json.loads(line) for line in (folder / "Encounter.ndjson").read_text().splitlines()]
    assert [encounter["class"]["code"] for encounter in encounters] == ["IMP", "HH", "UNK", "IMP"]
    assert encounters[0]["period"] == {"start": "2000-01-01", "end": "2000-01-04"}
    assert encounters[0]["length"]["value"] == 3.25 and "length" not in encounters[1]
    left = [e.get("hospitalization", {}).get("dischargeDisposition", {"coding": [{}]})["coding"][0] for e in encounters]
    assert [coding.get("code") for coding in left] == ["home", None, "exp", "other-hcf"]
    found = [json.loads(line)["valueQuantity"] for line in (folder / "Observation.ndjson").read_text().splitlines()]
    assert found == [{"value": 5.4, "unit": "mg/dL"}, {"value": 98.6, "unit": "°F"}]
    patients = [json.loads(line) for line in (folder / "Patient.ndjson").read_text().splitlines()]
    assert [patient.get("deceasedBoolean") for patient in patients] == [True, None]


def test_csv_has_columns_for_numbers_only_where_there_are_any(whole: Cohort, tiny: Cohort, tmp_path: Path) -> None:
    rows = rows_of(export.write(whole, tmp_path / "c", "csv") / "long.csv")
    glucose = next(row for row in rows if row["code"] == "LAB/50931")
    assert (glucose["value"], glucose["unit"]) == ("5.4", "mg/dL")
    assert "value" not in rows_of(export.write(tiny, tmp_path / "t", "csv") / "long.csv")[0]


def test_halo_says_that_it_has_no_numbers(whole: Cohort, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export.write(whole, tmp_path / "h", "halo")
    assert "no place for numbers" in capsys.readouterr().err
