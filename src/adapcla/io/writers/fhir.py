"""FHIR R4 out: bulk NDJSON files of Patient, Encounter, Condition, Procedure, MedicationRequest and Observation.

Made-up patients carry the tag HTEST, those of unknown origin a tag of our own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from adapcla.data import Code, Cohort, Kind
from adapcla.data.code_systems import add_dot
from adapcla.io.database import Database, quoted
from adapcla.io.options import WriteOptions
from adapcla.io.readers.fhir import OWN_SYSTEM, SYSTEMS, TEST_DATA, UCUM, UNKNOWN_ORIGIN
from adapcla.io.writers.tables import (
    FIRST_PATIENT,
    Part,
    add_times,
    attribute_column,
    attributes_query,
    cohort_tables,
)

#: The words of visits, and the attributes of patients, stand under addresses of our own.
OWN_WORD, OWN_ATTRIBUTE = "urn:adapcla:token", "urn:adapcla:attribute:"
_ACT = "http://terminology.hl7.org/CodeSystem/v3-ActCode"
_UNKNOWN_CLASS = {"system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor", "code": "UNK"}
#: Kind of visit → code of the class of an encounter.
_CLASSES = {
    "inpatient": "IMP",
    "outpatient": "AMB",
    "emergency": "EMER",
    "elective": "IMP",
    "emergency-inpatient": "IMP",
    "observation": "OBSENC",
    "home": "HH",
}
_DISPOSITION = "http://terminology.hl7.org/CodeSystem/discharge-disposition"
#: Ending → discharge disposition.
_DISPOSITIONS = {
    "home": "home",
    "facility": "other-hcf",
    "hospice": "hosp",
    "against-advice": "aadvice",
    "died": "exp",
    "home-care": "oth",
    "other": "oth",
}
_TAGS = {Kind.SYNTHETIC: TEST_DATA, Kind.SIMULATED: TEST_DATA, Kind.UNKNOWN: UNKNOWN_ORIGIN}
#: Resource → domain, fields with a fixed word, the field of the code, the field of the date.
_CODED = {
    "Condition": ("diagnosis", "", "code", "recordedDate"),
    "Procedure": ("procedure", "'status', 'completed', ", "code", "performedDateTime"),
    "MedicationRequest": (
        "drug",
        "'status', 'completed', 'intent', 'order', ",
        "medicationCodeableConcept",
        "authoredOn",
    ),
    "Observation": ("lab", "'status', 'final', ", "code", "effectiveDateTime"),
}


def write_fhir(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write one NDJSON file for each kind of resource."""
    cohort = part.cohort
    cohort_tables(db, cohort)
    add_times(db)
    _add_concepts(db, cohort)
    tag = _TAGS.get(cohort.origin.kind)
    meta = "NULL" if tag is None else _sql({"tag": [tag]})
    _write(db, folder, "Patient", _patients(cohort, meta), "patient")
    _write(db, folder, "Encounter", _encounters(meta, options), "visit")
    for resource in _CODED:
        _write(db, folder, resource, _coded(resource, meta), "event")


def _write(db: Database, folder: Path, resource: str, fields_and_source: tuple[str, str], order: str) -> None:
    """Write a resource per row of a source; the merge leaves out the fields that are null, which FHIR forbids."""
    fields, source = fields_and_source
    opening = f"'resourceType', '{resource}', {fields}"
    rows = db.rows(f"SELECT json_merge_patch('{{}}', json_object({opening})) FROM {source} ORDER BY {order}")
    with (folder / f"{resource}.ndjson").open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for (line,) in rows)


def _add_concepts(db: Database, cohort: Cohort) -> None:
    """Make `concepts` with the CodeableConcept of each code, and `words` with those of kinds and endings of visits."""
    import pyarrow as pa

    listed = [_json(_concept(code)) for code in cohort.vocabulary.codes]
    db.add("concepts", pa.table({"code": pa.array(range(len(listed)), pa.int32()), "concept": listed}))
    words = []
    for role, word, token in db.query("SELECT role, word, token FROM codes WHERE role IN ('kind', 'ending')"):
        own = {"system": OWN_WORD, "code": token}
        if role == "kind":
            words.append((role, word, _json(_class(word)), _json([{"coding": [own]}])))
        else:
            known = [{"system": _DISPOSITION, "code": _DISPOSITIONS[word]}] if word in _DISPOSITIONS else []
            words.append((role, word, "", _json({"coding": [*known, own]})))
    names = ("role", "word", "class", "concept")
    columns = {name: pa.array([row[place] for row in words], pa.string()) for place, name in enumerate(names)}
    db.add("words", pa.table(columns))


def _patients(cohort: Cohort, meta: str) -> tuple[str, str]:
    """Fields and source of Patient; attributes other than the sex are extensions."""
    gender = f"CASE left(upper({attribute_column(cohort, 'sex')}), 1) WHEN 'F' THEN 'female' WHEN 'M' THEN 'male' END"
    address = {name: OWN_ATTRIBUTE + quote(name) for name in sorted(cohort.attributes)}
    urls = " ".join(f"WHEN {quoted(name)} THEN {quoted(url)}" for name, url in address.items())
    url = f"CASE name {urls} END" if urls else "name"
    extensions = f"""(SELECT patient,
        to_json(list({{'url': {url}, 'valueString': category}} ORDER BY place)) AS extension
        FROM ({attributes_query(cohort, without=("sex",))}) GROUP BY patient)"""
    fields = f"""'id', 'p' || (patient + {FIRST_PATIENT}), 'meta', {meta}, 'gender', {gender},
        'birthDate', CAST(birth_year AS VARCHAR), 'deceasedBoolean', CASE WHEN died THEN true END,
        'extension', extension"""
    return fields, f"patients LEFT JOIN {extensions} USING (patient)"


def _encounters(meta: str, options: WriteOptions) -> tuple[str, str]:
    """Fields and source of Encounter; the kind of a visit goes before `--visit-type`."""
    fields = f"""'id', 'v' || (visit + {FIRST_PATIENT}), 'meta', {meta}, 'status', 'finished',
        'class', coalesce(CAST(k.class AS JSON), {_sql(_class(options.visit_type or ""))}),
        'type', CAST(k.concept AS JSON),
        'subject', json_object('reference', 'Patient/p' || (patient + {FIRST_PATIENT})),
        'period', json_object('start', CAST(CAST(begins AS DATE) AS VARCHAR),
            'end', CAST(CAST(ends AS DATE) AS VARCHAR)),
        'length', CASE WHEN length IS NOT NULL THEN json_object('value', {_number("length")}, 'unit', 'd',
            'system', '{UCUM}', 'code', 'd') END,
        'hospitalization', CASE WHEN ending IS NOT NULL THEN
            json_object('dischargeDisposition', CAST(d.concept AS JSON)) END"""
    source = """stays s LEFT JOIN words k ON k.role = 'kind' AND k.word = s.kind
        LEFT JOIN words d ON d.role = 'ending' AND d.word = s.ending"""
    return fields, source


def _coded(resource: str, meta: str) -> tuple[str, str]:
    """Fields and source of the resources of one domain; numbers, and domains without a resource, are observed."""
    domain, fixed, code_field, date_field = _CODED[resource]
    domains = ", ".join(quoted(name) for name, *_ in _CODED.values() if name != "lab")
    chosen = f"unit = '' AND domain = '{domain}'" if domain != "lab" else f"unit <> '' OR domain NOT IN ({domains})"
    quantity = f"CASE WHEN value IS NOT NULL THEN json_object('value', {_number('value')}, 'unit', unit) END"
    fields = f"""'id', 'e' || (event + 1), 'meta', {meta}, {fixed}
        'subject', json_object('reference', 'Patient/p' || (e.patient + {FIRST_PATIENT})),
        'encounter', json_object('reference', 'Encounter/v' || (visit + {FIRST_PATIENT})),
        '{date_field}', CAST(CAST(begins AS DATE) AS VARCHAR), '{code_field}', CAST(concept AS JSON),
        'valueQuantity', {quantity if domain == "lab" else "NULL"}"""
    source = f"""(SELECT e.*, c.unit, c.domain FROM events e JOIN codes c USING (code) WHERE role = '' AND ({chosen})) e
        JOIN stays USING (visit) JOIN concepts USING (code)"""
    return fields, source


def _concept(code: Code) -> dict[str, Any]:
    """A code as FHIR writes it, ICD with its dot.

    >>> _concept(Code.of("25000", "ICD9CM"))
    {'coding': [{'system': 'http://hl7.org/fhir/sid/icd-9-cm', 'code': '250.00'}]}
    """
    system = SYSTEMS.get(code.system.upper(), OWN_SYSTEM + code.system if code.system else "")
    coding = {"system": system} if system else {}
    coding["code"] = add_dot(code.bare, code.system.upper())
    if code.description:
        coding["display"] = code.description
    return {"coding": [coding]}


def _class(kind: str) -> dict[str, str]:
    """The class of an encounter of this kind."""
    return {"system": _ACT, "code": _CLASSES[kind]} if kind in _CLASSES else _UNKNOWN_CLASS


def _number(column: str) -> str:
    """SQL for a number with the digits that it has: 5.4, not 5.400000095367432."""
    return f"CAST(CAST({column} AS VARCHAR) AS DOUBLE)"


def _sql(content: Any) -> str:
    """JSON as SQL."""
    return f"CAST({quoted(_json(content))} AS JSON)"


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
