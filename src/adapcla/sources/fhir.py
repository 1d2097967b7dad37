"""FHIR bulk data: newline-delimited JSON of Patient, Encounter, Condition, Procedure and MedicationRequest (R4, R5)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla.errors import InputError
from adapcla.records import Cohort, Kind
from adapcla.sources.codebook import Codebook, assembled
from adapcla.sources.contract import Options
from adapcla.sources.stays import VISIT_RULE, n_by_day, shape_visits
from adapcla.sources.streams import CheckedStream
from adapcla.sources.workbench import Workbench

if TYPE_CHECKING:
    import pyarrow as pa

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
#: Any other system of an export of this project is written under this prefix.
OWN_SYSTEM = "urn:adapcla:system:"
#: The coding that holds the token itself, and the extension that holds an attribute or label, in such an export.
TOKEN, FACT = "urn:adapcla:token", "urn:adapcla:fact"
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
    "other": ("Observation", ("code",), ("effectiveDateTime",)),
}
_NAME_OF = {address: name for name, address in SYSTEMS.items()}
_WITHDRAWN = ("entered-in-error", "cancelled", "refuted", "not-done", "planned")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?")
_ENDINGS = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
_LONGEST_LINE = 1 << 26
_BATCH = 1 << 15
_CODED = ("patient", "visit", "date", "code", "system", "domain")


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder of bulk NDJSON files, named by resource (`Condition.ndjson`, `Condition.1.ndjson.gz`)."""
    if not root.is_dir():
        raise InputError("no such folder", path=root, expected="a folder of NDJSON files", remedy="check the path")
    book = Codebook.beside(root)
    descriptions: dict[tuple[str, str], str] = {}
    with Workbench() as bench:
        for domain in options.record_domains if book is None else RESOURCES:
            _load_codes(bench, root, domain, options.system if book is None else TOKEN, descriptions)
        parts = [f"SELECT * FROM codes_{name}" for name in (options.record_domains if book is None else RESOURCES)]
        bench.run("CREATE VIEW named AS " + " UNION ALL ".join(parts))
        _load(bench, root, "Encounter", "stays", ("patient", "visit", "date"), _stay, needed=False)
        shape_visits(bench)
        kinds: set[Kind] = set()

        def person(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
            kinds.add(_kind(found))
            return _person(found)

        _load(bench, root, "Patient", "persons", ("patient", "sex", "born", "key"), person, needed=False)
        _shape_people(bench, book)
        return assembled(
            bench,
            book,
            source="fhir",
            visit_rule=VISIT_RULE.format("Encounter"),
            options=options,
            attributes=("sex", "age_band"),
            descriptions={} if book is not None else descriptions,
            card={"codes without an encounter, by day": n_by_day(bench)},
            path=root,
            # One patient without the tag is a real one among the others.
            kind=kinds.pop() if len(kinds) == 1 else Kind.REAL,
        )


# ---- from lines to rows -----------------------------------------------------------------------------------
def _load(
    bench: Workbench,
    root: Path,
    resource: str,
    name: str,
    columns: tuple[str, ...],
    rows_of: Callable[[dict[str, Any]], Iterator[tuple[str, ...]]],
    needed: bool = True,
) -> None:
    """Make table `name` of the rows that `rows_of` finds in each resource; withdrawn resources are counted."""
    files = _files(root, resource)
    if needed and not files:
        raise InputError(
            f"no file of {resource} resources",
            path=root,
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

    bench.add(name, _batches(rows(), columns), columns)
    bench.drop(f"{resource} resources withdrawn, planned or not done", withdrawn[0])


def _files(root: Path, resource: str) -> list[Path]:
    """The files whose name holds the resource as a word of its own."""
    word = re.compile(rf"(?:^|[^A-Za-z]){resource}(?:[^A-Za-z]|$)", re.IGNORECASE)
    there = (path for path in root.rglob("*") if path.is_file() and path.name.lower().endswith(_ENDINGS))
    return sorted(path for path in there if word.search(str(path.relative_to(root))))


def _resources(path: Path, resource: str) -> Iterator[dict[str, Any]]:
    """The resources of a file, line by line; a line that is none is an error with its row."""
    with io.BufferedReader(CheckedStream(path), 1 << 20) as stream:
        row = 0
        while line := stream.readline(_LONGEST_LINE):
            row += 1
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(
                    "a line that is not JSON",
                    path=path,
                    row=row,
                    expected=f"one {resource} resource per line, at most {_LONGEST_LINE:,} bytes",
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


def _batches(rows: Iterator[tuple[str, ...]], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows of text as record batches."""
    import pyarrow as pa

    held: list[tuple[str, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == _BATCH:
            yield pa.record_batch(
                [pa.array(list(c), pa.string()) for c in zip(*held, strict=True)], names=list(columns)
            )
            held = []
    if held:
        yield pa.record_batch([pa.array(list(c), pa.string()) for c in zip(*held, strict=True)], names=list(columns))


def _is_withdrawn(content: dict[str, Any]) -> bool:
    """Whether a resource says of itself that it does not hold."""
    statuses = [content.get("status"), *(coding.get("code") for coding in _codings(content.get("verificationStatus")))]
    return any(isinstance(status, str) and status in _WITHDRAWN for status in statuses)


def _kind(found: dict[str, Any]) -> Kind:
    """What the tags of a resource say it is.

    >>> _kind({"meta": {"tag": [TEST_DATA]}}).value, _kind({"meta": {}}).value
    ('synthetic', 'real')
    """
    listed = _inside(found, "meta", "tag")
    tags = [tag for tag in listed if isinstance(tag, dict)] if isinstance(listed, list) else []
    for kind, mark in ((Kind.SYNTHETIC, TEST_DATA), (Kind.UNKNOWN, UNKNOWN_ORIGIN)):
        if any(tag.get("system") == mark["system"] and tag.get("code") == mark["code"] for tag in tags):
            return kind
    return Kind.REAL


def _text(value: Any) -> str:
    """Text from a field; whatever could not be written as text becomes a mark that no code may hold."""
    if not isinstance(value, str):
        return ""
    return (
        value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd") if not value.isprintable() else value
    )


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


def _time(value: Any) -> str:
    """A date or local time without its zone; what has another form stays, to be counted as unreadable.

    >>> _time("2020-01-31T10:00:00.5-05:00"), _time({"start": "2020-01-31"}), _time("2020")
    ('2020-01-31T10:00:00', '2020-01-31', '2020')
    """
    text = _text(value.get("start") if isinstance(value, dict) else value)
    time = _TIME.match(text)
    return time[0] if time else text


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


def _load_codes(
    bench: Workbench, root: Path, domain: str, preferred: str, descriptions: dict[tuple[str, str], str]
) -> None:
    """Make the table of one domain's codes; a resource with several codings counts by the preferred, else the first."""
    resource, concepts, dates = RESOURCES[domain]

    def rows(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        concept = next((content[name] for name in concepts if name in content), None)
        concept = _inside(concept, "concept") or concept
        named = [(system_name(_text(c.get("system"))), c) for c in _codings(concept) if c.get("code")]
        named = [pair for pair in named if preferred in (pair[0], pair[1].get("system"))] or named
        system, coding = named[0] if named else ("", {})
        code = _text(coding.get("code"))
        if coding.get("system") == TOKEN:
            system = ""
        if display := _text(coding.get("display")):
            descriptions.setdefault((system, code), display)
        date = next((content[name] for name in dates if name in content), "")
        patient = _identity(_inside(content, "subject", "reference"))
        visit = _identity(_inside(content, "encounter", "reference"))
        yield patient, visit, _time(date), code, system, domain

    _load(bench, root, resource, f"codes_{domain}", _CODED, rows)


def _stay(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of an encounter."""
    start = _inside(content, "period", "start") or _inside(content, "actualPeriod", "start")
    yield _identity(_inside(content, "subject", "reference")), _text(content.get("id")), _time(start)


def _person(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of a patient, and one for each fact that an export of this project wrote down."""
    sex = _text(content.get("gender"))[:1].upper()
    who = _text(content.get("id"))
    yield who, sex if sex in ("F", "M") else "", _text(content.get("birthDate"))[:4], ""
    extensions = content.get("extension")
    for extension in extensions if isinstance(extensions, list) else ():
        if _inside(extension, "url") == FACT:
            yield who, "", "", _text(extension.get("valueString"))


def _shape_people(bench: Workbench, book: Codebook | None) -> None:
    """Make `people`: facts of an own export, else sex and age band at the first visit."""
    if book is not None:
        book.make_people(bench, "SELECT patient, key FROM persons WHERE key <> ''")
        return
    bench.run(
        """CREATE TABLE people AS SELECT p.patient, '' AS visit, sex, coalesce(age_band(
           year(DATE '1970-01-01' + CAST(floor(f.first_day) AS INTEGER)) - try_cast(born AS INTEGER)), '') AS age_band
           FROM persons p LEFT JOIN (SELECT patient, min(days_of(date)) AS first_day FROM visits GROUP BY patient) f
           ON f.patient = p.patient WHERE key = ''"""
    )
