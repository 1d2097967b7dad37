"""FHIR bulk data (R4, R5): lines of Patient, Encounter, Condition, Procedure, MedicationRequest and Observation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from adapcla.data import Kind
from adapcla.errors import InputError
from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions
from adapcla.io.tables import open_bytes
from adapcla.io.visit_terms import END_TOKENS, FHIR_ENDS, FHIR_KINDS, KIND_TOKENS

#: Name of a code system in a vocabulary → its address in FHIR.
SYSTEMS = {
    "ICD10CM": "http://hl7.org/fhir/sid/icd-10-cm",
    "ICD9CM": "http://hl7.org/fhir/sid/icd-9-cm",
    "ICD10": "http://hl7.org/fhir/sid/icd-10",
    "ICD10PCS": "http://www.cms.gov/Medicare/Coding/ICD10",
    "ICD9PROC": "http://hl7.org/fhir/sid/icd-9-cm-procedure",
    "SNOMED": "http://snomed.info/sct",
    "RXNORM": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "NDC": "http://hl7.org/fhir/sid/ndc",
    "ATC": "http://www.whocc.no/atc",
    "CVX": "http://hl7.org/fhir/sid/cvx",
    "LOINC": "http://loinc.org",
    "CPT4": "http://www.ama-assn.org/go/cpt",
}
#: Any other system of an export of this project is written under this prefix; kinds and endings of visits as tokens.
OWN_SYSTEM, TOKEN = "urn:adapcla:system:", "urn:adapcla:token"
#: The tags of resources that are nobody's, and of those of which an export did not know whose they are.
TEST_DATA = {
    "system": "http://terminology.hl7.org/CodeSystem/v3-ActReason",
    "code": "HTEST",
    "display": "test health data",
}
UNKNOWN_ORIGIN = {"system": "urn:adapcla:origin", "code": "unknown", "display": "of unknown origin"}
#: Domain → resource, the fields that may hold its code, the fields that may hold its date.
RESOURCES = {
    "diagnosis": ("Condition", ("code",), ("recordedDate", "onsetDateTime", "onsetPeriod", "assertedDate")),
    "procedure": ("Procedure", ("code",), ("performedDateTime", "performedPeriod", "occurrenceDateTime")),
    "drug": ("MedicationRequest", ("medicationCodeableConcept", "medication"), ("authoredOn",)),
    "lab": ("Observation", ("code",), ("effectiveDateTime", "effectivePeriod", "effectiveInstant")),
}
#: The address of units, and the parts of a day that a duration may be given in.
UCUM = "http://unitsofmeasure.org"
_PARTS_OF_DAY = {"d": 1, "h": 24, "min": 1440, "s": 86400}
_NAME_OF = {address: name for name, address in SYSTEMS.items()}
_WITHDRAWN = ("entered-in-error", "cancelled", "refuted", "not-done", "planned")
_EVENT = ("patient", "visit", "time", "system", "code", "domain", "value", "unit", "description")
_VISIT = ("patient", "visit", "start", "end", "length", "kind", "discharge")
_PERSON = ("patient", "sex", "birth", "death")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?")
_ENDINGS = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
_LONGEST_LINE = 1 << 26
_BATCH = 1 << 15


def read_fhir(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder of bulk NDJSON files holds, named by resource (`Condition.ndjson`, `Condition.1.ndjson.gz`)."""
    if not path.is_dir():
        raise InputError("no such folder", path=path, expected="a folder of NDJSON files", remedy="check the path")
    origins: set[Kind] = set()

    def person(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        origins.add(_origin(content))
        yield from _person(content)

    domains = [domain for domain in RESOURCES if domain in options.record_domains]
    for domain in domains:
        _load_codes(db, path, domain, options.system)
    _load(db, path, "Encounter", "encounters", _VISIT, _visit, needed=False)
    _load(db, path, "Patient", "people_rows", _PERSON, person, needed=False)
    rows = " UNION ALL ".join(f"SELECT * FROM codes_{domain}" for domain in domains)
    return SourceTables(
        visits="""SELECT patient, visit, start, "end", '' AS day, '' AS sequence, kind, discharge, false AS died,
            CAST(number_of(length) AS DOUBLE) AS length_days FROM encounters""",
        events=f"""SELECT patient, visit, time, system, code, domain, domain = 'lab' AS measured, value, unit
            FROM ({rows})"""
        if domains
        else NO_EVENTS,
        visit_rule="one Encounter, or one calendar day where a row has none; ordered by the start of the visit",
        patients="SELECT patient, '' AS visit, sex, left(birth, 4) AS birth, '' AS age, death FROM people_rows",
        known=("sex", "age_band"),
        names=f"""SELECT system, code, description, '' AS choice_group FROM ({rows}) WHERE description <> ''"""
        if domains
        else "",
        day_visits=True,
        kind_terms=FHIR_KINDS | KIND_TOKENS,
        discharge_terms=FHIR_ENDS | END_TOKENS,
        # One patient without the tag is a real one among the others.
        origin=origins.pop() if len(origins) == 1 else Kind.REAL,
    )


# ---- from lines to rows -----------------------------------------------------------------------------------
def _load(
    db: Database,
    path: Path,
    resource: str,
    name: str,
    columns: tuple[str, ...],
    rows_of: Callable[[dict[str, Any]], Iterator[tuple[str, ...]]],
    needed: bool = True,
) -> None:
    """Make table `name` of the rows that `rows_of` finds in each resource; withdrawn resources are counted."""
    import pyarrow as pa

    files = _files_of(path, resource)
    if needed and not files:
        raise InputError(
            f"no file of {resource} resources",
            path=path,
            expected=f"{resource}.ndjson, packed or not",
            remedy="check that this is the folder of a bulk export, or leave the domain out",
        )
    withdrawn = [0]

    def rows() -> Iterator[tuple[str, ...]]:
        for file in files:
            for content in _resources(file, resource):
                if _is_withdrawn(content):
                    withdrawn[0] += 1
                else:
                    yield from rows_of(content)

    schema = pa.schema([(column, pa.string()) for column in columns])
    db.add(name, pa.RecordBatchReader.from_batches(schema, _batches(rows(), schema)))
    db.drop(f"{resource} resources withdrawn, planned or not done", withdrawn[0])


def _files_of(root: Path, resource: str) -> list[Path]:
    """The files whose name holds the resource as a word of its own."""
    word = re.compile(rf"(?:^|[^A-Za-z]){resource}(?:[^A-Za-z]|$)", re.IGNORECASE)
    there = (path for path in root.rglob("*") if path.is_file() and path.name.lower().endswith(_ENDINGS))
    return sorted(path for path in there if word.search(str(path.relative_to(root))))


def _resources(path: Path, resource: str) -> Iterator[dict[str, Any]]:
    """The resources of a file, line by line; a line that is none is an error with its row."""
    with open_bytes(path) as stream:
        for row, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), 1):
            line = line.removeprefix(b"\xef\xbb\xbf") if row == 1 else line
            if not line.strip():
                continue
            try:
                content = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                raise InputError(
                    "a line that is not JSON",
                    path=path,
                    row=row,
                    expected=f"one {resource} resource per line in UTF-8, at most {_LONGEST_LINE:,} bytes",
                    remedy="repair or remove the line, or copy the file again",
                ) from None
            if not isinstance(content, dict) or content.get("resourceType") != resource:
                raise InputError(
                    "a line that is another resource",
                    path=path,
                    row=row,
                    column="resourceType",
                    expected=resource,
                    remedy="keep each kind of resource in files of its own",
                )
            yield content


def _batches(rows: Iterator[tuple[str, ...]], schema: Any) -> Iterator[Any]:
    """Rows of text as record batches."""
    import pyarrow as pa

    held: list[tuple[str, ...]] = []

    def batch() -> pa.RecordBatch:
        return pa.record_batch([pa.array(list(c), pa.string()) for c in zip(*held, strict=True)], schema=schema)

    for row in rows:
        held.append(row)
        if len(held) == _BATCH:
            yield batch()
            held = []
    if held:
        yield batch()


def _is_withdrawn(content: dict[str, Any]) -> bool:
    """Whether a resource says of itself that it does not hold."""
    statuses = [content.get("status"), *(coding.get("code") for coding in _codings(content.get("verificationStatus")))]
    return any(isinstance(status, str) and status in _WITHDRAWN for status in statuses)


def _origin(content: dict[str, Any]) -> Kind:
    """What the tags of a resource say it is.

    >>> _origin({"meta": {"tag": [TEST_DATA]}}).value, _origin({"meta": {}}).value
    ('synthetic', 'real')
    """
    listed = _inside(content, "meta", "tag")
    tags = [tag for tag in listed if isinstance(tag, dict)] if isinstance(listed, list) else []
    for kind, mark in ((Kind.SYNTHETIC, TEST_DATA), (Kind.UNKNOWN, UNKNOWN_ORIGIN)):
        if any(tag.get("system") == mark["system"] and tag.get("code") == mark["code"] for tag in tags):
            return kind
    return Kind.REAL


@lru_cache(maxsize=4096)
def system_name(address: str) -> str:
    """The short name of a code system.

    >>> system_name("http://snomed.info/sct"), system_name("urn:oid:2.16.840.1.113883.6.90/")
    ('SNOMED', '2.16.840.1.113883.6.90')
    """
    if address in _NAME_OF:
        return _NAME_OF[address]
    last = re.split(r"[/:]", address.rstrip("/"))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last)


def _load_codes(db: Database, path: Path, domain: str, preferred: str) -> None:
    """Make the table of one domain's codes; a resource with several codings counts by the preferred, else the first."""
    resource, concepts, dates = RESOURCES[domain]
    medications = _medications(path) if domain == "drug" else {}

    def rows(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        concept = next((content[name] for name in concepts if name in content), None)
        if (to := _inside(content, "medicationReference") or _inside(concept, "reference")) is not None:
            concept = _referred(to, content, medications)
        concept = _inside(concept, "concept") or concept
        named = [(system_name(_text(c.get("system"))), c) for c in _codings(concept) if c.get("code")]
        named = [pair for pair in named if preferred in (pair[0], pair[1].get("system"))] or named
        system, coding = named[0] if named else ("", {})
        date = next((content[name] for name in dates if name in content), "")
        yield (
            _identity(_inside(content, "subject", "reference")),
            _identity(_inside(content, "encounter", "reference")),
            _time_of(date),
            system,
            _text(coding.get("code")),
            domain,
            *_quantity(content.get("valueQuantity")),
            _text(coding.get("display")),
        )
        # A panel such as the blood pressure holds its values in parts of the same shape.
        parts = content.get("component") if domain == "lab" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from rows({**content, "component": None, "valueQuantity": None, **part})

    _load(db, path, resource, f"codes_{domain}", _EVENT, rows)


def _medications(path: Path) -> dict[str, Any]:
    """The id of each Medication → what it is."""
    found = {}
    for file in _files_of(path, "Medication"):
        for content in _resources(file, "Medication"):
            found[_text(content.get("id"))] = content.get("code")
    return found


def _referred(reference: Any, content: dict[str, Any], medications: dict[str, Any]) -> Any:
    """The concept of the Medication that a reference points to, inside the resource (`#a`) or in a file of its own."""
    name = _inside(reference, "reference")
    inner = content.get("contained")
    for each in inner if isinstance(inner, list) else ():
        if isinstance(each, dict) and f"#{each.get('id')}" == name:
            return each.get("code")
    return medications.get(_identity(name))


def _visit(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of an encounter."""
    period = _inside(content, "period") or _inside(content, "actualPeriod")
    kinds = content.get("class")
    # One coding in R4, a list of concepts in R5.
    classes = [kinds] if isinstance(kinds, dict) else kinds if isinstance(kinds, list) else []
    named = [found for kind in classes for found in ([kind, *_codings(kind)] if isinstance(kind, dict) else ())]
    types = content.get("type")
    own = [found for kind in (types if isinstance(types, list) else ()) for found in _codings(kind)]
    left = _inside(content, "hospitalization") or _inside(content, "admission")
    leaving = _codings(_inside(left, "dischargeDisposition"))
    length, unit = _quantity(content.get("length"))
    parts = _PARTS_OF_DAY.get(unit, 0)
    yield (
        _identity(_inside(content, "subject", "reference")),
        _text(content.get("id")),
        _time_of(_inside(period, "start")),
        _time_of(_inside(period, "end")),
        length if parts == 1 else str(float(length) / parts) if parts else "",
        _word(own, TOKEN) or _word(named),
        _word(leaving, TOKEN) or _word(leaving),
    )


def _word(listed: Sequence[dict[str, Any]], system: str = "") -> str:
    """The first code of some codings, or of those of one system.

    >>> _word([{"code": "IMP"}]), _word([{"code": "a"}, {"system": TOKEN, "code": "END/home"}], TOKEN)
    ('IMP', 'END/home')
    """
    codes = (_text(coding.get("code")) for coding in listed if not system or coding.get("system") == system)
    return next((code for code in codes if code), "")


def _person(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of a patient."""
    names = ("gender", "birthDate")
    yield (
        _text(content.get("id")),
        *(_text(content.get(name)) for name in names),
        _time_of(content.get("deceasedDateTime")),
    )


# ---- fields, whatever else they hold ----------------------------------------------------------------------
def _quantity(quantity: Any) -> tuple[str, str]:
    """The number of a quantity and its unit, as text; nothing where there is none, or only a bound of it.

    >>> _quantity({"value": 5.4, "unit": "mmol per l", "system": UCUM, "code": "mmol/L"}), _quantity(None)
    (('5.4', 'mmol/L'), ('', ''))
    """
    value = None if _inside(quantity, "comparator") else _inside(quantity, "value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "", ""
    coded = _text(_inside(quantity, "code")) if _inside(quantity, "system") == UCUM else ""
    return str(value), coded or _text(_inside(quantity, "unit"))


def _text(value: Any) -> str:
    """Text from a field; whatever could not be written as text becomes a mark."""
    if not isinstance(value, str):
        return ""
    if value.isprintable():
        return value.strip()
    # A control character keeps what could not be written from being taken for a code.
    return "".join("\x1a" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in value).strip()


def _inside(content: Any, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _codings(concept: Any) -> list[dict[str, Any]]:
    """The codings of a concept, whatever else it holds."""
    codings = _inside(concept, "coding")
    return [coding for coding in codings if isinstance(coding, dict)] if isinstance(codings, list) else []


def _identity(reference: Any) -> str:
    """The id that a reference ends with: `Patient/7` and `urn:uuid:7` both point to 7.

    >>> _identity("Patient/7"), _identity("urn:uuid:7"), _identity(None)
    ('7', '7', '')
    """
    return _text(reference).split("/_history/")[0].rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def _time_of(value: Any) -> str:
    """A date or local time without its zone; what has another form stays, to be counted as unreadable.

    >>> _time_of("2020-01-31T10:00:00.5-05:00"), _time_of({"start": "2020-01-31"}), _time_of("2020")
    ('2020-01-31T10:00:00', '2020-01-31', '2020')
    """
    given = _text(value.get("start") if isinstance(value, dict) else value)
    time = _TIME.match(given)
    return time[0] if time else given
