"""FHIR resources: each one is valid R4, and references point to resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapcla.errors import InputError
from adapcla.records import Code, Cohort
from adapcla.sources import export
from adapcla.sources.export import fhir


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


def test_synthetic_patients_are_tagged_and_others_are_not(tiny: Cohort, tmp_path: Path) -> None:
    from dataclasses import replace

    made = resources(export.write(tiny, tmp_path / "s", "fhir"))
    assert all(r["meta"]["tag"][0]["code"] == "HTEST" for listed in made.values() for r in listed)
    real = resources(export.write(replace(tiny, card={"source": "omop"}), tmp_path / "r", "fhir"))
    assert all("meta" not in r for listed in real.values() for r in listed)


def test_what_fhir_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that FHIR demands is taken away: the validator must see it."""
    monkeypatch.setitem(fhir._SHAPES, "procedure", ({}, "code", "performedDateTime"))
    cohort = Cohort.of([[["P"]]], [Code.of("P", domain="procedure")])
    with pytest.raises(InputError, match="Procedure"):
        export.write(cohort, tmp_path / "f", "fhir")
    assert not (tmp_path / "f").exists()
