"""FHIR R4 out: bulk NDJSON files of Patient, Encounter, Condition, Procedure, MedicationRequest and Observation."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Code, Cohort, Kind
from adapcla.data.code_systems import add_dot
from adapcla.errors import InputError
from adapcla.io.codebook import Codebook
from adapcla.io.readers.fhir import FACT, OWN_SYSTEM, RESOURCES, SYSTEMS, TEST_DATA, TOKEN, UCUM, UNKNOWN_ORIGIN
from adapcla.io.writers.options import ExportOptions
from adapcla.io.writers.rows import Block, birth_years, blocks, deaths, facts, numbers_of
from adapcla.io.writers.visits import END_PREFIX, KIND_PREFIX, StayCodes, code_of_visit, lengths

if TYPE_CHECKING:
    import pyarrow as pa

#: Ids of one width, so that they stand in the order of the visits also as text.
FIRST_ID = 9_000_000_000_000
#: So many resources of each kind are validated while writing; they all have one shape.
_VALIDATED = 20
_ACT = "http://terminology.hl7.org/CodeSystem/v3-ActCode"
#: Type of visit → the class of an encounter.
_CLASSES = {
    None: {"system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor", "code": "UNK"},
    "inpatient": {"system": _ACT, "code": "IMP"},
    "outpatient": {"system": _ACT, "code": "AMB"},
    "emergency": {"system": _ACT, "code": "EMER"},
    "elective": {"system": _ACT, "code": "IMP"},
    "emergency-inpatient": {"system": _ACT, "code": "IMP"},
    "observation": {"system": _ACT, "code": "OBSENC"},
    "home": {"system": _ACT, "code": "HH"},
}
_DISPOSITION = "http://terminology.hl7.org/CodeSystem/discharge-disposition"
#: Ending → discharge disposition.
_LEAVING = {
    "home": "home",
    "facility": "other-hcf",
    "hospice": "hosp",
    "against-advice": "aadvice",
    "died": "exp",
    "home-care": "oth",
    "other": "oth",
}
_TAGS = {
    Kind.SYNTHETIC: TEST_DATA,
    Kind.PLANTED: TEST_DATA,
    Kind.UNKNOWN: UNKNOWN_ORIGIN,
}
#: Domain → fields that FHIR demands, the field of the code, the field of the date.
_SHAPES = {
    "diagnosis": ({}, "code", "recordedDate"),
    "procedure": ({"status": "completed"}, "code", "performedDateTime"),
    "drug": ({"status": "completed", "intent": "order"}, "medicationCodeableConcept", "authoredOn"),
    "lab": ({"status": "final"}, "code", "effectiveDateTime"),
}


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write one NDJSON file a kind of resource; made-up patients carry the tag HTEST, those of unknown origin ours."""
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    kind = cohort.origin.kind
    tag = {"meta": {"tag": [_TAGS[kind]]}} if kind in _TAGS else {}
    domains = np.array([_domain(code) for code in cohort.vocabulary.codes], dtype=str)
    # Kinds, endings and lengths stand with the encounters.
    stay = StayCodes.of(cohort.vocabulary)
    domains[stay.words] = "stay"
    if stay.length >= 0:
        domains[stay.length] = "stay"
    concepts = [_json(_concept(code)) for code in cohort.vocabulary.codes]
    before = 0
    for block in blocks(cohort):
        _append(folder, "Patient", _patients(block, keys, tag))
        _append(folder, "Encounter", _encounters(block, tag, options))
        for domain, (resource, _, _) in RESOURCES.items():
            chosen = np.flatnonzero(domains[np.asarray(block.cohort.codes)] == domain)
            _append(folder, resource, _coded(block, domain, chosen, before, concepts, tag))
        before += block.cohort.n_entries
    _validate(folder)


def _domain(code: Code) -> str:
    """The domain whose resource holds a code; numbers and what has no resource of its own are observed.

    >>> _domain(Code.of("A")), _domain(Code.of("A", domain="other")), _domain(Code.of("A", unit="g"))
    ('diagnosis', 'lab', 'lab')
    """
    return code.domain if code.domain in _SHAPES and not code.unit else "lab"


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _concept(code: Code) -> dict[str, Any]:
    """A code as FHIR writes it, ICD with its dot; the token is a second coding."""
    system = SYSTEMS.get(code.system.upper(), OWN_SYSTEM + code.system if code.system else "")
    first = {"system": system} if system else {}
    first["code"] = add_dot(code.bare, code.system.upper())
    if code.description:
        first["display"] = code.description
    return {"coding": [first, {"system": TOKEN, "code": code.token}]}


def _append(folder: Path, resource: str, lines: list[str]) -> None:
    """Add lines to the file of a resource, which is there even if it has none."""
    with (folder / f"{resource}.ndjson").open("a", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _joined(*parts: Any) -> list[str]:
    """Texts joined element by element; a single text stands in every element."""
    import pyarrow as pa
    import pyarrow.compute as pcompute

    columns = [part if isinstance(part, str) else pa.array(part).cast(pa.string()) for part in parts]
    lines: list[str] = pcompute.binary_join_element_wise(*columns, "").to_pylist()
    return lines


def _patients(block: Block, keys: list[str], tag: dict[str, Any]) -> list[str]:
    """The Patient resources of a block; attributes and labels are extensions."""
    cohort = block.cohort
    who, key = facts(cohort)
    starts = np.searchsorted(who, np.arange(cohort.n_patients + 1))
    sex = cohort.attributes.get("sex")
    words = {"F": "female", "M": "male"}
    born, dead = birth_years(cohort), deaths(cohort)
    lines = []
    for p, number in enumerate(block.patients):
        record: dict[str, Any] = {"resourceType": "Patient", "id": f"p{number + FIRST_ID}", **tag}
        if sex is not None and sex.values[p] >= 0 and (word := words.get(sex.categories[sex.values[p]][:1].upper())):
            record["gender"] = word
        if born[p]:
            record["birthDate"] = str(born[p])
        if dead[p]:
            record["deceasedBoolean"] = True
        held = [{"url": FACT, "valueString": keys[k]} for k in key[starts[p] : starts[p + 1]]]
        lines.append(_json({**record, "extension": held} if held else record))
    return lines


def _opening(resource: str, tag: dict[str, Any], more: dict[str, Any]) -> str:
    """The opening of a resource up to its id."""
    return _json({"resourceType": resource, **tag, **more})[:-1] + ',"id":"'


def _encounters(block: Block, tag: dict[str, Any], options: ExportOptions) -> list[str]:
    """The Encounter resources of a block; what a visit says of itself goes before `--visit-type`."""
    import pyarrow as pa

    cohort, stay = block.cohort, StayCodes.of(block.cohort.vocabulary)
    tokens = cohort.vocabulary.tokens
    begins = np.datetime_as_string(block.dates)
    took = lengths(cohort)
    last = np.datetime64("9999-12-31", "D") - block.dates
    whole = np.minimum(np.where(np.isfinite(took), took, 0), last.astype(np.int64)).astype(np.int64)
    ends = np.datetime_as_string(block.dates + whole.astype("timedelta64[D]"))
    openings = [_opening("Encounter", tag, _status(token, options)) + "v" for token in [*tokens, ""]]
    leaving = [_leaving(token) for token in [*tokens, ""]]
    length = _joined(
        ',"length":{"value":', pa.array(took.astype(np.float32)), f',"unit":"d","system":"{UCUM}","code":"d"}}'
    )
    return _joined(
        _taken(openings, code_of_visit(cohort, stay.kinds)),
        block.visits + FIRST_ID,
        '","subject":{"reference":"Patient/p',
        block.patient_of_visit + FIRST_ID,
        '"},"period":{"start":"',
        begins,
        '","end":"',
        ends,
        '"}',
        np.where(np.isfinite(took), np.array(length), "").tolist(),
        _taken(leaving, code_of_visit(cohort, stay.ends)),
        "}",
    )


def _taken(texts: list[str], code: NDArray[np.int64]) -> pa.Array:
    """The text of each code, the last one for no code."""
    import pyarrow as pa

    return pa.array(texts, pa.string()).take(pa.array(code % len(texts)))


def _status(token: str, options: ExportOptions) -> dict[str, Any]:
    """Status, class and type of an encounter of this kind."""
    if not token.startswith(KIND_PREFIX):
        return {"status": "finished", "class": _CLASSES[options.visit_type]}
    kind = _CLASSES.get(token.removeprefix(KIND_PREFIX), _CLASSES[None])
    return {"status": "finished", "class": kind, "type": [{"coding": [{"system": TOKEN, "code": token}]}]}


def _leaving(token: str) -> str:
    """The part of an encounter that says how it ended."""
    if not token.startswith(END_PREFIX):
        return ""
    code = _LEAVING.get(token.removeprefix(END_PREFIX))
    known = [] if code is None else [{"system": _DISPOSITION, "code": code}]
    concept = {"coding": [*known, {"system": TOKEN, "code": token}]}
    return f',"hospitalization":{_json({"dischargeDisposition": concept})}'


def _quantities(block: Block, chosen: NDArray[np.int64]) -> list[str]:
    """The part of an observation that holds its number, nothing where it has none."""
    import pyarrow as pa

    value, _ = numbers_of(block.cohort, chosen)
    units = [_json(code.unit) for code in block.cohort.vocabulary.codes]
    unit = pa.array(units, pa.string()).take(pa.array(np.asarray(block.cohort.codes)[chosen]))
    texts = _joined(',"valueQuantity":{"value":', value.fill_null(0), ',"unit":', unit, "}")
    return np.where(np.asarray(value.is_null()), "", np.array(texts, dtype=object)).tolist()


def _coded(
    block: Block, domain: str, chosen: NDArray[np.int64], before: int, concepts: list[str], tag: dict[str, Any]
) -> list[str]:
    """The resources of one domain's codes in a block."""
    import pyarrow as pa

    if not len(chosen):
        return []
    fields, code_field, date_field = _SHAPES[domain]
    visit = block.cohort.visit_of_entry[chosen]
    code = pa.array(concepts, pa.string()).take(pa.array(np.asarray(block.cohort.codes)[chosen]))
    return _joined(
        _opening(RESOURCES[domain][0], tag, fields) + "e",
        chosen + before + 1,
        '","subject":{"reference":"Patient/p',
        block.patient_of_visit[visit] + FIRST_ID,
        '"},"encounter":{"reference":"Encounter/v',
        block.visits[visit] + FIRST_ID,
        f'"}},"{date_field}":"',
        np.datetime_as_string(block.dates[visit]),
        f'","{code_field}":',
        code,
        _quantities(block, chosen) if domain == "lab" and block.cohort.values is not None else "",
        "}",
    )


def _validate(folder: Path) -> None:
    """Check the first resources of each kind with `fhir.resources`, where it is installed."""
    if find_spec("fhir") is None or find_spec("fhir.resources") is None:
        return
    from fhir.resources.R4B import get_fhir_model_class

    for path in sorted(folder.glob("*.ndjson")):
        model = get_fhir_model_class(path.stem)
        with path.open(encoding="utf-8") as stream:
            for row, line in zip(range(1, _VALIDATED + 1), stream, strict=False):
                try:
                    model.model_validate_json(line)
                except ValueError:
                    raise InputError(
                        f"a {path.stem} resource that FHIR R4 does not allow",
                        path=path.name,
                        row=row,
                        expected="codes, descriptions and attributes that FHIR can hold",
                        remedy="look for empty or blank descriptions and category names",
                    ) from None
