"""FHIR bulk data (R4, R5): lines of Patient, Encounter, Condition, Procedure, MedicationRequest and Observation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from adapcla.data import Cohort, Kind
from adapcla.data.vocabulary import LENGTH_OF_STAY
from adapcla.errors import InputError
from adapcla.io.codebook import Codebook, assembled
from adapcla.io.contract import Options
from adapcla.io.courses import make_courses
from adapcla.io.readers.ndjson import batches, codings, files_of, identity, inside, resources, text, time_of
from adapcla.io.stays import VISIT_RULE, n_by_day, shape_visits
from adapcla.io.words import FHIR_ENDS, FHIR_KINDS, MARK, MARKED_ENDS, MARKED_KINDS
from adapcla.io.workbench import Workbench

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
    "lab": ("Observation", ("code",), ("effectiveDateTime", "effectivePeriod", "effectiveInstant")),
}
#: The address of units, and the parts of a day that a duration may be given in.
UCUM = "http://unitsofmeasure.org"
_PARTS_OF_DAY = {"d": 1, "h": 24, "min": 1440, "s": 86400}
_NAME_OF = {address: name for name, address in SYSTEMS.items()}
_WITHDRAWN = ("entered-in-error", "cancelled", "refuted", "not-done", "planned")
_CODED = ("patient", "visit", "date", "code", "system", "domain", "value", "unit")
_STAYS = ("patient", "visit", "date", "ends", "length", "kind", "ending")


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder of bulk NDJSON files, named by resource (`Condition.ndjson`, `Condition.1.ndjson.gz`)."""
    if not root.is_dir():
        raise InputError("no such folder", path=root, expected="a folder of NDJSON files", remedy="check the path")
    book = Codebook.beside(root)
    descriptions: dict[tuple[str, str], str] = {}
    card: dict[str, Any] = {}
    told = book is None and "stay" in options.domains
    kinds: set[Kind] = set()

    def person(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        kinds.add(_kind(found))
        return _person(found)

    with Workbench() as bench:
        domains = [domain for domain in RESOURCES if book is not None or domain in options.record_domains]
        for domain in domains:
            _load_codes(bench, root, domain, options.system if book is None else TOKEN, descriptions)
        _load(bench, root, "Encounter", "stay_rows", _STAYS, _stay, needed=False)
        _name_codes(bench, domains, book is not None)
        shape_visits(bench, results=True)
        _load(bench, root, "Patient", "persons", ("patient", "sex", "born", "died", "key"), person, needed=False)
        if told:
            card["stays"] = _make_courses(bench)
        _shape_people(bench, book)
        return assembled(
            bench,
            book,
            source="fhir",
            visit_rule=VISIT_RULE.format("Encounter"),
            options=options,
            attributes=("sex", "age_band"),
            descriptions={} if book is not None else descriptions,
            results="lab" in options.domains,
            courses=told,
            card={**card, "codes without an encounter, by day": n_by_day(bench)},
            path=root,
            # One patient without the tag is a real one among the others.
            kind=kinds.pop() if len(kinds) == 1 else Kind.REAL,
        )


def _name_codes(bench: Workbench, domains: Sequence[str], own: bool) -> None:
    """Make `stays` and `named`; in an export of this project numbers are told by having one, and stays are codes."""
    measured = "value <> ''" if own else "domain = 'lab'"
    select = (
        f"SELECT patient, visit, date, code, system, domain, {measured} AS measured, number_of(value) AS value, unit"
    )
    parts = [f"{select} FROM codes_{domain}" for domain in domains]
    if own:
        told = "SELECT patient, visit, date, {}, '', 'diagnosis', {}, {}, '' FROM stay_rows WHERE {}"
        skip = len(MARK) + 1
        parts += [
            told.format(f"'{system}/' || substr({column}, {skip})", "false", "NULL", f"starts_with({column}, '{MARK}')")
            for system, column in (("KIND", "kind"), ("END", "ending"))
        ]
        parts.append(told.format(f"'{LENGTH_OF_STAY.token}'", "true", "number_of(length)", "length <> ''"))
    none = "SELECT '' AS patient, '' AS visit, '' AS date, '' AS code, '' AS system, '' AS domain, false AS measured, "
    none += "CAST(NULL AS FLOAT) AS value, '' AS unit WHERE false"
    bench.run("CREATE VIEW named AS " + " UNION ALL ".join(parts or [none]))
    bench.run("CREATE VIEW stays AS SELECT patient, visit, date FROM stay_rows")


def _make_courses(bench: Workbench) -> dict[str, int]:
    """Make `courses` of encounters and of the dates of deaths; words that are not known."""
    return make_courses(
        bench,
        """SELECT patient, visit, kind, ending, false AS died, days_of(date) AS begins,
           coalesce(number_of(length), days_of(ends) - days_of(date)) AS days FROM stay_rows""",
        FHIR_KINDS | MARKED_KINDS,
        FHIR_ENDS | MARKED_ENDS,
        "SELECT patient, days_of(died) AS day FROM persons WHERE days_of(died) IS NOT NULL",
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
    files = files_of(root, resource)
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
            for content in resources(file, resource):
                if _is_withdrawn(content):
                    withdrawn[0] += 1
                else:
                    yield from rows_of(content)

    bench.add(name, batches(rows(), columns), columns)
    bench.drop(f"{resource} resources withdrawn, planned or not done", withdrawn[0])


def _is_withdrawn(content: dict[str, Any]) -> bool:
    """Whether a resource says of itself that it does not hold."""
    statuses = [content.get("status"), *(coding.get("code") for coding in codings(content.get("verificationStatus")))]
    return any(isinstance(status, str) and status in _WITHDRAWN for status in statuses)


def _kind(found: dict[str, Any]) -> Kind:
    """What the tags of a resource say it is.

    >>> _kind({"meta": {"tag": [TEST_DATA]}}).value, _kind({"meta": {}}).value
    ('synthetic', 'real')
    """
    listed = inside(found, "meta", "tag")
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


def _load_codes(
    bench: Workbench, root: Path, domain: str, preferred: str, descriptions: dict[tuple[str, str], str]
) -> None:
    """Make the table of one domain's codes; a resource with several codings counts by the preferred, else the first."""
    resource, concepts, dates = RESOURCES[domain]

    def rows(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        concept = next((content[name] for name in concepts if name in content), None)
        concept = inside(concept, "concept") or concept
        named = [(system_name(text(c.get("system"))), c) for c in codings(concept) if c.get("code")]
        named = [pair for pair in named if preferred in (pair[0], pair[1].get("system"))] or named
        system, coding = named[0] if named else ("", {})
        code = text(coding.get("code"))
        if coding.get("system") == TOKEN:
            system = ""
        if display := text(coding.get("display")):
            descriptions.setdefault((system, code), display)
        date = next((content[name] for name in dates if name in content), "")
        patient = identity(inside(content, "subject", "reference"))
        visit = identity(inside(content, "encounter", "reference"))
        yield patient, visit, time_of(date), code, system, domain, *_quantity(content.get("valueQuantity"))
        # A panel such as the blood pressure holds its values in parts of the same shape.
        parts = content.get("component") if domain == "lab" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from rows({**content, "component": None, "valueQuantity": None, **part})

    _load(bench, root, resource, f"codes_{domain}", _CODED, rows)


def _quantity(quantity: Any) -> tuple[str, str]:
    """The number of a quantity and its unit, as text; nothing where there is none, or only a bound of it.

    >>> _quantity({"value": 5.4, "unit": "mmol per l", "system": UCUM, "code": "mmol/L"}), _quantity(None)
    (('5.4', 'mmol/L'), ('', ''))
    """
    value = None if inside(quantity, "comparator") else inside(quantity, "value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "", ""
    coded = text(inside(quantity, "code")) if inside(quantity, "system") == UCUM else ""
    return str(value), coded or text(inside(quantity, "unit"))


def _stay(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of an encounter."""
    period = inside(content, "period") or inside(content, "actualPeriod")
    kinds = content.get("class")
    # One coding in R4, a list of concepts in R5.
    classes = [kinds] if isinstance(kinds, dict) else kinds if isinstance(kinds, list) else []
    named = [found for kind in classes for found in ([kind, *codings(kind)] if isinstance(kind, dict) else ())]
    types = content.get("type")
    own = [found for kind in (types if isinstance(types, list) else ()) for found in codings(kind)]
    left = inside(content, "hospitalization") or inside(content, "admission")
    leaving = codings(inside(left, "dischargeDisposition"))
    length, unit = _quantity(content.get("length"))
    parts = _PARTS_OF_DAY.get(unit, 0)
    yield (
        identity(inside(content, "subject", "reference")),
        text(content.get("id")),
        time_of(inside(period, "start")),
        time_of(inside(period, "end")),
        length if parts == 1 else str(float(length) / parts) if parts else "",
        _word(own, "KIND/") or _word(named),
        _word(leaving, "END/") or _word(leaving),
    )


def _word(listed: Sequence[dict[str, Any]], own: str = "") -> str:
    """The first code of some codings; with `own`, the first of this project that begins so, after a mark.

    >>> _word([{"code": "IMP"}]), _word([{"system": TOKEN, "code": "END/home"}], "END/"), _word([], "END/")
    ('IMP', 'own home', '')
    """
    for coding in listed:
        code = text(coding.get("code"))
        if own and coding.get("system") == TOKEN and code.startswith(own):
            return MARK + code.removeprefix(own)
        if code and not own:
            return code
    return ""


def _person(content: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The row of a patient, and one for each fact that an export of this project wrote down."""
    sex = text(content.get("gender"))[:1].upper()
    who = text(content.get("id"))
    died = time_of(content.get("deceasedDateTime"))
    yield who, sex if sex in ("F", "M") else "", text(content.get("birthDate"))[:4], died, ""
    extensions = content.get("extension")
    for extension in extensions if isinstance(extensions, list) else ():
        if inside(extension, "url") == FACT:
            yield who, "", "", "", text(extension.get("valueString"))


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
