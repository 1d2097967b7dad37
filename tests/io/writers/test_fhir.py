"""FHIR resources: each one is valid R4, and references point to resources."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapcla.data import Attribute, Code, Cohort, Kind, Origin
from adapcla.io import read
from adapcla.io import writers as export


def resources(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in folder.glob("*.ndjson")
    }


def test_every_resource_is_valid_and_references_resolve(tiny_full: Cohort, tmp_path: Path) -> None:
    from fhir.resources.R4B import get_fhir_model_class

    found = resources(export.write(tiny_full, tmp_path / "f", "fhir"))
    counts = {name: len(listed) for name, listed in found.items()}
    assert counts == {
        "Patient": 3,
        "Encounter": 5,
        "Condition": 6,
        "Procedure": 1,
        "MedicationRequest": 1,
        "Observation": 0,
    }
    there = {f"{name}/{resource['id']}" for name, listed in found.items() for resource in listed}
    assert len(there) == sum(counts.values())
    for name, listed in found.items():
        for resource in listed:
            get_fhir_model_class(name).model_validate(resource)
            for field in ("subject", "encounter"):
                assert field not in resource or resource[field]["reference"] in there


def test_codes_carry_the_address_of_their_system(tmp_path: Path) -> None:
    codes = [
        Code.of("I10", "ICD10CM", description='Essential "primary" hypertension'),
        Code.of("7", "LOCAL"),
        Code.of("B"),
    ]
    cohort = Cohort.of([[["ICD10CM/I10", "LOCAL/7", "B"]]], codes)
    found = resources(export.write(cohort, tmp_path / "f", "fhir"))["Condition"]
    assert [resource["code"]["coding"][0] for resource in found] == [
        {"code": "B"},
        {
            "system": "http://hl7.org/fhir/sid/icd-10-cm",
            "code": "I10",
            "display": 'Essential "primary" hypertension',
        },
        {"system": "urn:adapcla:system:LOCAL", "code": "7"},
    ]


def test_icd_codes_have_their_dots_and_bare_digits_stay(tmp_path: Path) -> None:
    listed = [Code.of("E119", "ICD10CM"), Code.of("9671", "ICD9PROC"), Code.of("0DTJ4ZZ", "ICD10PCS"), Code.of("0389")]
    cohort = Cohort.of([[[code.token for code in listed]]], listed)
    found = resources(export.write(cohort, tmp_path / "f", "fhir"))["Condition"]
    assert [r["code"]["coding"][0]["code"] for r in found] == ["0389", "E11.9", "0DTJ4ZZ", "96.71"]


def test_births_deaths_and_the_class_of_encounters(tmp_path: Path) -> None:
    from fhir.resources.R4B import get_fhir_model_class

    attributes = {
        "age_band": Attribute(np.array([0, -1], dtype=np.int16), ("60-69",)),
        "died": Attribute(np.array([0, -1], dtype=np.int16), ("yes",)),
    }
    cohort = Cohort.of([[["A"]], [["A"]]], attributes=attributes)
    for visit_type, code in ((None, "UNK"), ("inpatient", "IMP"), ("outpatient", "AMB"), ("emergency", "EMER")):
        options = export.WriteOptions(visit_type=visit_type)
        found = resources(export.write(cohort, tmp_path / code, "fhir", options=options))
        assert {encounter["class"]["code"] for encounter in found["Encounter"]} == {code}
    first, second = found["Patient"]
    assert (first["birthDate"], first["deceasedBoolean"]) == ("1935", True)
    assert not {"birthDate", "deceasedBoolean"} & set(second)
    for name, listed in found.items():
        for resource in listed:
            get_fhir_model_class(name).model_validate(resource)


@pytest.mark.parametrize(("kind", "tag"), [*((kind, "HTEST") for kind in Kind if kind.made_up), ("unknown", "unknown")])
def test_patients_that_are_nobody_are_tagged_and_so_are_those_of_unknown_origin(
    kind: str, tag: str, tiny: Cohort, tmp_path: Path
) -> None:
    written = resources(export.write(replace(tiny, card=Origin(Kind(kind)).as_card()), tmp_path / "s", "fhir"))
    assert all(r["meta"]["tag"][0]["code"] == tag for listed in written.values() for r in listed)


def test_real_patients_carry_no_tag(tiny: Cohort, tmp_path: Path) -> None:
    real = resources(export.write(replace(tiny, card=Origin(Kind.REAL).as_card()), tmp_path / "r", "fhir"))
    assert all("meta" not in r for listed in real.values() for r in listed)


def test_one_patient_without_the_tag_makes_all_real(tmp_path: Path) -> None:
    coded = Cohort.of([[["ICD10CM/I10"]]] * 2, [Code.of("ICD10CM/I10")], card=Origin(Kind.SYNTHETIC).as_card())
    export.write(coded, tmp_path / "f", "fhir")
    first, second = (tmp_path / "f" / "Patient.ndjson").read_text().splitlines()
    plain = {name: value for name, value in json.loads(second).items() if name != "meta"}
    (tmp_path / "f" / "Patient.ndjson").write_text(f"{first}\n{json.dumps(plain)}\n")
    assert read("fhir", tmp_path / "f").origin == Origin(Kind.REAL)


def test_kinds_endings_lengths_and_values_of_a_whole_record(whole: Cohort, tmp_path: Path) -> None:
    from fhir.resources.R4B import get_fhir_model_class

    found = resources(export.write(whole, tmp_path / "f", "fhir"))
    for name, listed in found.items():
        for resource in listed:
            get_fhir_model_class(name).model_validate(resource)
    encounters = found["Encounter"]
    assert [encounter["class"]["code"] for encounter in encounters] == ["IMP", "HH", "UNK", "IMP"]
    assert encounters[0]["period"] == {"start": "2000-01-01", "end": "2000-01-04"}
    assert encounters[0]["length"]["value"] == 3.25 and "length" not in encounters[1]
    left = [e.get("hospitalization", {}).get("dischargeDisposition", {"coding": [{}]})["coding"][0] for e in encounters]
    assert [coding.get("code") for coding in left] == ["home", None, "exp", "other-hcf"]
    quantities = [observation["valueQuantity"] for observation in found["Observation"]]
    assert quantities == [{"value": 5.4, "unit": "mg/dL"}, {"value": 98.6, "unit": "°F"}]
    assert [patient.get("deceasedBoolean") for patient in found["Patient"]] == [True, None]
