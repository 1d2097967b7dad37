"""FHIR bulk files: encounters and days, which coding counts, what is withdrawn, and lines that are not right."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.io.whole import WHOLES

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.readers.fhir import system_name

ICD10 = "http://hl7.org/fhir/sid/icd-10-cm"


def save(path: Path, resources: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(resource) + "\n" for resource in resources), encoding="utf-8")
    return path


def condition(code: str, encounter: str | None = None, system: str = ICD10, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "resourceType": "Condition",
        "subject": {"reference": "Patient/1"},
        "code": {"coding": [{"system": system, "code": code}]},
    }
    if encounter:
        found["encounter"] = {"reference": f"Encounter/{encounter}"}
    return {**found, **fields}


def encounter(identity: str, start: str, patient: str = "1", **fields: Any) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": identity,
        "status": "finished",
        "subject": {"reference": f"Patient/{patient}"},
        "period": {"start": start},
        **fields,
    }


def dataset(folder: Path, conditions: list[dict[str, Any]]) -> Path:
    save(
        folder / "Patient.ndjson", [{"resourceType": "Patient", "id": "1", "gender": "female", "birthDate": "1950-06"}]
    )
    save(
        folder / "Encounter.ndjson",
        [encounter("b", "2020-02-01T23:30:00-05:00"), encounter("a", "2020-01-01"), encounter("c", "2020-03-01")],
    )
    save(folder / "Condition.ndjson", conditions)
    return folder


def test_encounters_in_time_order_local_days_and_rows_without_encounter(tmp_path: Path) -> None:
    """Encounter b begins on 1 February where it happened, though it was 2 February elsewhere; c holds nothing."""
    rows = [condition("I10", "b"), condition("0389", "a"), condition("E11.9", recordedDate="2020-02-20T08:00:00Z")]
    cohort = read("fhir", dataset(tmp_path, rows))
    assert list(cohort.patients()) == [[["ICD10CM/0389"], ["ICD10CM/I10"], ["ICD10CM/E11.9"]]]
    assert cohort.days.tolist() == [0, 31, 50]
    assert cohort.card["codes without a visit, by day"] == 1
    assert cohort.card["dropped"] == {"visits without a code": 1}
    assert cohort.attributes["sex"].categories == ("F",)
    assert cohort.attributes["age_band"].categories == ("70-79",)


def test_the_first_coding_counts_unless_another_system_is_asked_for(tmp_path: Path) -> None:
    both = condition("x", "a")
    both["code"]["coding"] = [
        {"system": "http://snomed.info/sct", "code": "44054006", "display": "Diabetes"},
        {"system": ICD10, "code": "E11.9"},
    ]
    dataset(tmp_path, [both])
    assert read("fhir", tmp_path).vocabulary.tokens == ("SNOMED/44054006",)
    assert read("fhir", tmp_path).vocabulary.codes[0].description == "Diabetes"
    assert read("fhir", tmp_path, system="ICD10CM").vocabulary.tokens == ("ICD10CM/E11.9",)


def test_what_was_withdrawn_is_counted(tmp_path: Path) -> None:
    wrong = {"coding": [{"code": "entered-in-error"}]}
    dataset(tmp_path, [condition("I10", "a"), condition("I11", "a", verificationStatus=wrong)])
    save(
        tmp_path / "Procedure.ndjson",
        [{"resourceType": "Procedure", "status": "not-done", "subject": {"reference": "Patient/1"}}],
    )
    cohort = read("fhir", tmp_path, domains=("dx", "px"))
    assert cohort.vocabulary.tokens == ("ICD10CM/I10",)
    assert cohort.card["dropped"]["Condition resources withdrawn, planned or not done"] == 1
    assert cohort.card["dropped"]["Procedure resources withdrawn, planned or not done"] == 1


def test_drugs_of_both_versions_and_shards_and_packed_files(tmp_path: Path) -> None:
    dataset(tmp_path, [condition("I10", "a")])
    concept = {"coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": "1191"}]}
    request = {"resourceType": "MedicationRequest", "subject": {"reference": "urn:uuid:1"}, "authoredOn": "2020-01-01"}
    save(tmp_path / "MedicationRequest.000.ndjson", [{**request, "medicationCodeableConcept": concept}])
    concept["coding"][0] = {"system": "urn:oid:1.2.3", "code": "7"}
    packed = gzip.compress(json.dumps({**request, "medication": {"concept": concept}}).encode())
    (tmp_path / "2.MedicationRequest.ndjson.gz").write_bytes(packed)
    cohort = read("fhir", tmp_path, domains=("rx",))
    assert [(code.token, code.domain) for code in cohort.vocabulary.codes] == [
        ("1.2.3/7", "drug"),
        ("RXNORM/1191", "drug"),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "row 2: a line that is not JSON"),
        ("[" * 100_000, "row 2: a line that is not JSON"),
        ("9" * 5_000, "row 2"),
        ("[]", "row 2, column 'resourceType'"),
        ('{"resourceType": "Patient"}', "row 2, column 'resourceType'"),
        ("null", "row 2"),
    ],
)
def test_a_bad_line_is_named_by_file_and_row(tmp_path: Path, line: str, said: str) -> None:
    dataset(tmp_path, [condition("I10", "a")])
    with (tmp_path / "Condition.ndjson").open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    with pytest.raises(InputError, match=r"Condition\.ndjson") as caught:
        read("fhir", tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe{\0}\0", b'{"resourceType": "Condition", "x": "\xe9"}', b'{"a": "\0"}', b"\x1f\x8b\x08\x00cut"],
)
def test_other_encodings_and_damage_are_errors(tmp_path: Path, content: bytes) -> None:
    dataset(tmp_path, [])
    (tmp_path / "Condition.ndjson").write_bytes(content)
    with pytest.raises(InputError, match=r"Condition\.ndjson"):
        read("fhir", tmp_path)


@pytest.mark.parametrize(
    "spoil",
    [
        {"subject": None},
        {"subject": "Patient/1"},
        {"subject": {"reference": 7}},
        {"code": None},
        {"code": []},
        {"code": {"coding": "x"}},
        {"code": {"coding": [None, 7]}},
        {"code": {"coding": [{"code": 7}]}},
        {"code": {"text": "words only"}},
        {"code": {"coding": [{"code": "\ud800"}]}},
        {"code": {"coding": [{"code": "a\x00b"}]}},
        {"code": {"coding": [{"code": "=1+1"}]}},
        {"encounter": [], "recordedDate": 7},
        {"verificationStatus": 5},
    ],
)
def test_a_resource_of_odd_shape_is_kept_or_counted_never_a_crash(tmp_path: Path, spoil: dict[str, Any]) -> None:
    dataset(tmp_path, [condition("I10", "a"), {**condition("J45", "b"), **spoil}])
    cohort = read("fhir", tmp_path)
    assert "ICD10CM/I10" in cohort.vocabulary.tokens
    lost = sum(n for reason, n in cohort.card["dropped"].items() if reason.startswith(("codes", "empty code")))
    assert cohort.n_entries + lost == 2


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Condition\.ndjson"):
        read("fhir", tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read("fhir", tmp_path / "absent")
    save(tmp_path / "Condition.ndjson", [condition("I10", recordedDate="2020-01-01")])
    assert read("fhir", tmp_path).n_visits == 1


def test_an_export_is_read_as_anybodys_data(tiny_full: Cohort, tmp_path: Path) -> None:
    export.write(tiny_full, tmp_path / "f", "fhir")
    found = read("fhir", tmp_path / "f")
    assert list(found.patients()) == [[["SYS/A", "SYS/B"], ["SYS/B"]], [["SYS/A", "SYS/B"], ["SYS/A"]]]
    sex = found.attributes["sex"]
    assert [sex.categories[v] if v >= 0 else "" for v in sex.values] == ["F", ""]


def test_systems_have_short_names() -> None:
    assert system_name(ICD10) == "ICD10CM"
    assert system_name("") == ""
    assert system_name("http://example.org/codes/my codes/") == "my-codes"


def test_a_bound_is_no_value_and_a_panel_holds_its_parts(tmp_path: Path) -> None:
    folder = WHOLES["fhir"](tmp_path / "data").root
    concept = {name: {"coding": [{"system": "http://loinc.org", "code": name}]} for name in ("low", "high", "pressure")}
    found = [
        {"code": concept["low"], "valueQuantity": {"value": 5, "comparator": "<"}},
        {
            "code": concept["pressure"],
            "component": [
                {"code": concept["low"], "valueQuantity": {"value": 80, "unit": "mm[Hg]"}},
                {"code": concept["high"], "valueQuantity": {"value": 120, "unit": "mm[Hg]"}},
            ],
        },
    ]
    to = {"subject": {"reference": "Patient/1"}, "encounter": {"reference": "Encounter/11"}}
    lines = [json.dumps({"resourceType": "Observation", **to, **observation}) + "\n" for observation in found]
    (folder / "Observation.ndjson").write_text("".join(lines), encoding="utf-8")
    cohort = read("fhir", folder, domains=("lab",))
    assert cohort.vocabulary.tokens == ("LOINC/high", "LOINC/low")
    assert cohort.values is not None and cohort.values.tolist() == [120, 80]
    # The bound, and the panel itself, which has no value of its own.
    assert cohort.card["dropped"]["values that are no number"] == 2


def test_drugs_that_are_referred_to_are_found(tmp_path: Path) -> None:
    """A medication may be a resource of its own, or one inside the request; both were taken for empty cells."""
    dataset(tmp_path, [condition("I10", "a")])
    rxnorm = "http://www.nlm.nih.gov/research/umls/rxnorm"
    concept = {name: {"coding": [{"system": rxnorm, "code": name}]} for name in ("1191", "860975")}
    save(tmp_path / "Medication.ndjson", [{"resourceType": "Medication", "id": "m", "code": concept["1191"]}])
    request = {
        "resourceType": "MedicationRequest",
        "subject": {"reference": "Patient/1"},
        "encounter": {"reference": "Encounter/a"},
    }
    inner = {"contained": [{"resourceType": "Medication", "id": "in", "code": concept["860975"]}]}
    requests = [
        {**request, "medicationReference": {"reference": "Medication/m"}},
        {**request, **inner, "medicationReference": {"reference": "#in"}},
        {**request, "medication": {"reference": {"reference": "Medication/m"}}},
    ]
    save(tmp_path / "MedicationRequest.ndjson", requests)
    cohort = read("fhir", tmp_path, domains=("rx",))
    assert cohort.vocabulary.tokens == ("RXNORM/1191", "RXNORM/860975")
    assert "empty code cells" not in cohort.card["dropped"]
