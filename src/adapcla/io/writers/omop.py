"""OMOP CDM 5.4 out: CSV tables with all columns, keys that point to rows, and who the patients are in `cdm_source`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Code, Cohort, Kind, Vocabulary, code_systems
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.io.codebook import NAMES, Codebook
from adapcla.io.writers import cdm
from adapcla.io.writers.athena import Mapped, mapped
from adapcla.io.writers.cdm import EHR, Concept
from adapcla.io.writers.options import ExportOptions
from adapcla.io.writers.rows import FIRST_DAY, Block, birth_years, blocks, deaths, facts, numbers_of, times
from adapcla.io.writers.sheets import Sheets, plain_cell
from adapcla.io.writers.visits import END_PREFIX, KIND_PREFIX, StayCodes, code_of_visit
from adapcla.version import __version__

#: Ids of one width, so that they stand in the same order as numbers and as text; they fit 32 bits.
FIRST_PERSON = 1_000_000_000
#: Concepts of one's own start here by the convention of the CDM.
FIRST_CONCEPT = 2_000_000_000
_GENDERS = {"M": cdm.MALE, "F": cdm.FEMALE}
#: Domain of the CDM → table, the stem of its columns, the stems of its dates.
TABLES = {
    "Condition": ("condition_occurrence", "condition", ("condition_start",)),
    "Procedure": ("procedure_occurrence", "procedure", ("procedure",)),
    "Drug": ("drug_exposure", "drug", ("drug_exposure_start", "drug_exposure_end")),
    "Device": ("device_exposure", "device", ("device_exposure_start",)),
    "Measurement": ("measurement", "measurement", ("measurement",)),
    "Observation": ("observation", "observation", ("observation",)),
}
DESCRIPTIONS = {
    Kind.SYNTHETIC: "SYNTHETIC patients written by a generative model",
    Kind.PLANTED: "SYNTHETIC patients drawn from a planted law",
    Kind.REAL: "Patients of source data, with forgotten ids and dates",
    Kind.UNKNOWN: "Patients of unknown origin: they may be real",
}
_DOMAINS = {"diagnosis": "Condition", "procedure": "Procedure", "drug": "Drug", "lab": "Measurement"}
#: The domains whose tables have a column for a number.
_NUMBERS = ("Measurement", "Observation")
#: Days without a condition after which its next occurrence begins a new era.
_PERSISTENCE = 30


class _Concepts(NamedTuple):
    """Where each code goes: its own concept, and the standard concepts (0: none) with their domains, code by code."""

    source: NDArray[np.int64]
    starts: NDArray[np.int64]
    standard: NDArray[np.int64]
    domain: NDArray[np.str_]

    @classmethod
    def of(cls, vocabulary: Vocabulary, known: dict[int, Mapped]) -> _Concepts:
        """The concepts of a vocabulary's codes; a code without a standard concept stays in the domain that it has."""
        source = np.arange(len(vocabulary), dtype=np.int64) + FIRST_CONCEPT
        standard: list[list[int]] = [[0] for _ in vocabulary.codes]
        domain = [[_domain(code)] for code in vocabulary.codes]
        for position, found in known.items():
            source[position] = found.source.concept_id
            if found.targets:
                standard[position] = [target.concept_id for target in found.targets]
                number = bool(vocabulary.codes[position].unit)
                domain[position] = [_table_domain(target.domain_id, number) for target in found.targets]
        starts = starts_from_sizes(np.array([len(listed) for listed in standard], dtype=np.int64))
        return cls(source, starts, np.concatenate(standard).astype(np.int64), np.concatenate(domain).astype(str))


def _table_domain(domain: str, number: bool = False) -> str:
    """The domain whose table holds a concept; what has no table of its own, or no place for its number, is observed.

    >>> _table_domain("Condition"), _table_domain("Race"), _table_domain("Condition", number=True)
    ('Condition', 'Observation', 'Observation')
    """
    return domain if domain in (_NUMBERS if number else TABLES) else "Observation"


def _domain(code: Code) -> str:
    """The domain of a code without a concept."""
    return _table_domain(_DOMAINS.get(code.domain, ""), bool(code.unit))


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write persons, visits, codes, eras, deaths, and the concepts that they need."""
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    vocabulary = cohort.vocabulary
    systems = code_systems.icd_systems(vocabulary)
    named = [(icd or code.system, code.bare) for code, icd in zip(vocabulary.codes, systems, strict=True)]
    known = {} if options.vocabulary is None else mapped(options.vocabulary, named)
    concepts = _Concepts.of(vocabulary, known)
    rows = dict.fromkeys([*TABLES, "era"], 0)
    with Sheets(folder) as sheets:
        for block in blocks(cohort):
            _add_people(sheets, block, options)
            _add_visits(sheets, block, options)
            # Kinds and endings stand with the visits.
            told = np.flatnonzero(~StayCodes.of(vocabulary).words[np.asarray(block.cohort.codes)])
            code = np.asarray(block.cohort.codes)[told]
            entry = np.repeat(told, np.diff(concepts.starts)[code])
            target = expand_ranges(concepts.starts[code], concepts.starts[1:][code])
            for domain in TABLES:
                where = np.flatnonzero(concepts.domain[target] == domain)
                rows[domain] += _add_codes(sheets, block, domain, concepts, entry[where], target[where], rows[domain])
                if domain == "Condition":
                    standard = concepts.standard[target[where]]
                    rows["era"] += _add_eras(sheets, block, entry[where], standard, rows["era"])
            rows["Observation"] += _add_facts(sheets, block, keys, rows["Observation"])
        _add_vocabulary(sheets, vocabulary, known)
        _add_source(sheets, cohort, options)


def _add(sheets: Sheets, table: str, columns: dict[str, Any]) -> None:
    """Append rows to a table of the CDM; a column that is not given is empty, a single value stands in every row."""
    import pyarrow as pa

    n = next(len(values) for values in columns.values() if not np.isscalar(values))
    whole = {name: np.full(n, values) if np.isscalar(values) else values for name, values in columns.items()}
    sheets.add(table, {name: whole[name] if name in whole else pa.nulls(n, pa.string()) for name in cdm.COLUMNS[table]})


def _moments(stems: tuple[str, ...], time: NDArray[np.datetime64]) -> dict[str, Any]:
    """The columns of date and time of these stems."""
    dates = {f"{stem}_date": time.astype("datetime64[D]") for stem in stems}
    return dates | {f"{stem}_datetime": time.astype("datetime64[s]") for stem in stems}


def _add_people(sheets: Sheets, block: Block, options: ExportOptions) -> None:
    """Append to person, observation_period and death."""
    import pyarrow as pa

    cohort, ids = block.cohort, block.patients + FIRST_PERSON
    born = birth_years(cohort)
    born = np.where(born > 0, born, options.birth_year or 0)
    gender, word = np.zeros(cohort.n_patients, dtype=np.int64), pa.nulls(cohort.n_patients, pa.string())
    if (sex := cohort.attributes.get("sex")) is not None:
        gender = np.array([*(_GENDERS.get(name[:1].upper(), 0) for name in sex.categories), 0])[sex.values]
        words = pa.array([*map(plain_cell, sex.categories), None], pa.string())
        word = words.take(pa.array(np.asarray(sex.values, dtype=np.int64) % len(words)))
    person = {
        "person_id": ids,
        "gender_concept_id": gender,
        "year_of_birth": born,
        "month_of_birth": 1,
        "day_of_birth": 1,
        "birth_datetime": (born - 1970).astype("datetime64[Y]").astype("datetime64[s]"),
        "race_concept_id": 0,
        "ethnicity_concept_id": 0,
        "person_source_value": ids.astype(str),
        "gender_source_value": word,
    }
    _add(sheets, "person", person)
    until = np.maximum.reduceat(times(cohort)[1].astype("datetime64[D]"), cohort.first_visits)
    period = {
        "observation_period_id": ids,
        "person_id": ids,
        "observation_period_start_date": block.dates[cohort.patient_starts[:-1]],
        "observation_period_end_date": until,
        "period_type_concept_id": EHR,
    }
    _add(sheets, "observation_period", period)
    dead = np.flatnonzero(deaths(cohort))
    moment = _moments(("death",), times(cohort)[1][block.last_visit[dead]])
    _add(sheets, "death", {"person_id": ids[dead], "death_type_concept_id": EHR} | moment)


def _add_visits(sheets: Sheets, block: Block, options: ExportOptions) -> None:
    """Append to visit_occurrence; what a visit says of itself goes before `--visit-type`."""
    import pyarrow as pa

    begin, end = times(block.cohort)
    vocabulary, stay = block.cohort.vocabulary, StayCodes.of(block.cohort.vocabulary)
    columns: dict[str, Any] = {
        "visit_occurrence_id": block.visits + 1,
        "person_id": block.patient_of_visit + FIRST_PERSON,
        "visit_concept_id": cdm.VISIT_TYPES[options.visit_type] if options.visit_type else 0,
        **_moments(("visit_start",), begin),
        **_moments(("visit_end",), end),
        "visit_type_concept_id": cdm.EHR_ENCOUNTER,
        "visit_source_value": options.visit_type or "",
    }
    for mask, stem, concepts, prefix in (
        (stay.kinds, "visit", cdm.KINDS, KIND_PREFIX),
        (stay.ends, "discharged_to", cdm.ENDS, END_PREFIX),
    ):
        if mask.any():
            code = code_of_visit(block.cohort, mask)
            none = columns.get(f"{stem}_concept_id", 0)
            numbers = [concepts.get(token.removeprefix(prefix), 0) for token in vocabulary.tokens]
            columns[f"{stem}_concept_id"] = np.array([*numbers, none], dtype=np.int64)[code]
            words = pa.array([*vocabulary.tokens, columns.get(f"{stem}_source_value", "")], pa.string())
            columns[f"{stem}_source_value"] = words.take(pa.array(code % len(words)))
    _add(sheets, "visit_occurrence", columns)


def _add_codes(
    sheets: Sheets,
    block: Block,
    domain: str,
    concepts: _Concepts,
    entry: NDArray[np.int64],
    target: NDArray[np.int64],
    before: int,
) -> int:
    """Append codes to the table of one domain, one row for each standard concept; how many rows."""
    import pyarrow as pa

    code, visit = np.asarray(block.cohort.codes)[entry], block.cohort.visit_of_entry[entry]
    table, stem, dates = TABLES[domain]
    # The table is written even where it is empty, so that a reader finds it.
    tokens = pa.array(block.cohort.vocabulary.tokens, pa.string())
    columns = {
        f"{table}_id": np.arange(len(entry)) + before + 1,
        "person_id": block.patient_of_visit[visit] + FIRST_PERSON,
        f"{stem}_concept_id": concepts.standard[target],
        **_moments(dates, times(block.cohort)[0][visit]),
        f"{stem}_type_concept_id": EHR,
        "visit_occurrence_id": pa.array(block.visits[visit] + 1, pa.int64()),
        f"{stem}_source_value": tokens.take(pa.array(code)),
        f"{stem}_source_concept_id": concepts.source[code],
    }
    if block.cohort.values is not None and domain in _NUMBERS:
        columns["value_as_number"], columns["unit_source_value"] = numbers_of(block.cohort, entry)
    _add(sheets, table, columns)
    return len(entry)


def _add_eras(sheets: Sheets, block: Block, entry: NDArray[np.int64], concept: NDArray[np.int64], before: int) -> int:
    """Append to condition_era; conditions without a standard concept have none."""
    known = concept > 0
    visit = block.cohort.visit_of_entry[entry[known]]
    person, kind, first, last, n = eras(block.patient_of_visit[visit], concept[known], block.dates[visit])
    columns = {
        "condition_era_id": np.arange(len(n)) + before + 1,
        "person_id": person + FIRST_PERSON,
        "condition_concept_id": kind,
        "condition_era_start_date": first,
        "condition_era_end_date": last,
        "condition_occurrence_count": n,
    }
    _add(sheets, "condition_era", columns)
    return len(n)


def eras(
    person: NDArray[np.int64], concept: NDArray[np.int64], day: NDArray[np.datetime64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """(person, concept, first day, last day, occurrences) of each era: occurrences at most 30 days from the one before.

    >>> days = np.datetime64("2000-01-01") + np.array([0, 30, 61])
    >>> *_, first, last, n = eras(np.zeros(3, int), np.ones(3, int), days)
    >>> first.astype(str).tolist(), last.astype(str).tolist(), n.tolist()
    (['2000-01-01', '2000-03-02'], ['2000-01-31', '2000-03-02'], [2, 1])
    """
    order = np.lexsort((day, concept, person))
    person, concept, day = person[order], concept[order], day[order]
    new = np.ones(len(order), dtype=bool)
    far = np.diff(day) > np.timedelta64(_PERSISTENCE, "D")
    new[1:] = (np.diff(person) != 0) | (np.diff(concept) != 0) | far
    starts = np.flatnonzero(new)
    n = np.diff(np.append(starts, len(order)))
    return person[starts], concept[starts], day[starts], day[starts + n - 1], n


def _add_facts(sheets: Sheets, block: Block, keys: list[str], before: int) -> int:
    """Append attributes and labels to observation, without a visit; how many."""
    import pyarrow as pa

    patient, key = facts(block.cohort)
    columns = {
        "observation_id": np.arange(len(patient)) + before + 1,
        "person_id": patient + block.first_patient + FIRST_PERSON,
        "observation_concept_id": 0,
        **_moments(("observation",), times(block.cohort)[0][block.cohort.patient_starts[:-1]][patient]),
        "observation_type_concept_id": EHR,
        "visit_occurrence_id": pa.nulls(len(patient), pa.int64()),
        "observation_source_value": pa.array(keys, pa.string()).take(pa.array(key)),
        "observation_source_concept_id": 0,
    }
    if block.cohort.values is not None:
        columns["value_as_number"] = pa.nulls(len(patient), pa.float32())
    _add(sheets, "observation", columns)
    return len(patient)


def _add_vocabulary(sheets: Sheets, vocabulary: Vocabulary, known: dict[int, Mapped]) -> None:
    """Write every concept that is used, and the domains, vocabularies, classes and relationships that these name."""
    own = [
        Concept(
            FIRST_CONCEPT + position,
            plain_cell(code.description or code.token),
            _domain(code),
            code.system or "None",
            "Undefined",
            None,
            code.bare,
        )
        for position, code in enumerate(vocabulary.codes)
        if position not in known
    ]
    foreign = [concept for found in known.values() for concept in (found.source, *found.targets)]
    stays = cdm.STAY_CONCEPTS if StayCodes.of(vocabulary).words.any() else ()
    concepts = {concept.concept_id: concept for concept in (*foreign, *cdm.BUILT_IN, *stays, *own)}
    listed = [concepts[number] for number in sorted(concepts)]
    _add(sheets, "concept", {name: [getattr(row, name) for row in listed] for name in Concept._fields})
    for table in ("domain", "vocabulary", "concept_class"):
        names = sorted({getattr(concept, f"{table}_id") for concept in listed})
        _add(sheets, table, {f"{table}_id": names, f"{table}_name": names, f"{table}_concept_id": 0})
    pairs = [(found.source.concept_id, target.concept_id) for found in known.values() for target in found.targets]
    for name, reverse, (one, other) in (("Maps to", "Mapped from", (0, 1)), ("Mapped from", "Maps to", (1, 0))):
        relation = {
            "relationship_id": [name],
            "relationship_name": [name],
            "is_hierarchical": 0,
            "defines_ancestry": 0,
            "reverse_relationship_id": [reverse],
            "relationship_concept_id": 0,
        }
        _add(sheets, "relationship", relation)
        ids = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        valid = {"valid_start_date": np.datetime64(cdm.VALID_FROM), "valid_end_date": np.datetime64(cdm.VALID_TO)}
        maps = {"concept_id_1": ids[:, one], "concept_id_2": ids[:, other], "relationship_id": name}
        _add(sheets, "concept_relationship", maps | valid)


def _add_source(sheets: Sheets, cohort: Cohort, options: ExportOptions) -> None:
    """Write cdm_source, which says what kind of patients these are, and what was put in the place of the unknown."""
    kind = cohort.origin.kind
    unknown = int((birth_years(cohort) == 0).sum())
    stand_in = f"; {unknown} of {cohort.n_patients} with {options.birth_year} in place of an unknown year of birth"
    day = np.full(1, FIRST_DAY)
    columns: dict[str, Any] = {
        "cdm_source_name": [NAMES[kind]],
        "cdm_source_abbreviation": ["SYNTHETIC" if kind.made_up else kind.value.upper()],
        "cdm_holder": ["unknown"],
        "source_description": [DESCRIPTIONS[kind] + (stand_in if unknown else "")],
        "cdm_etl_reference": [f"adapcla export {__version__}"],
        "source_release_date": day,
        "cdm_release_date": day,
        "cdm_version": ["v5.4"],
        "cdm_version_concept_id": [cdm.CDM_54],
        "vocabulary_version": ["codes of the cohort" if options.vocabulary is None else "Athena download"],
    }
    _add(sheets, "cdm_source", columns)
