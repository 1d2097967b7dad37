"""OMOP CDM 5.4 out: CSV tables with every NOT NULL column filled; `cdm_source` says what the patients are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.records import Cohort, Kind
from adapcla.sources.codebook import NAMES, Codebook
from adapcla.sources.export.options import ExportOptions
from adapcla.sources.export.rows import FIRST_DAY, Block, blocks, domain_of_code, facts
from adapcla.sources.export.sheets import Sheets, plain_cell
from adapcla.version import __version__

#: Ids of one width, so that they stand in the same order as numbers and as text; they fit 32 bits.
FIRST_PERSON = 1_000_000_000
#: Concepts of one's own start here by the convention of the CDM.
FIRST_CONCEPT = 2_000_000_000
_EHR = 32817
_CDM_54 = 756265
_GENDERS = {"M": 8507, "F": 8532}
#: Domain → table, the stem of its columns, its dates.
TABLES = {
    "diagnosis": ("condition_occurrence", "condition", ("condition_start_date",)),
    "procedure": ("procedure_occurrence", "procedure", ("procedure_date",)),
    "drug": ("drug_exposure", "drug", ("drug_exposure_start_date", "drug_exposure_end_date")),
    "other": ("observation", "observation", ("observation_date",)),
}
DESCRIPTIONS = {
    Kind.SYNTHETIC: "SYNTHETIC patients written by a generative model",
    Kind.PLANTED: "SYNTHETIC patients drawn from a planted law",
    Kind.REAL: "Patients of source data, with forgotten ids and dates",
    Kind.UNKNOWN: "Patients of unknown origin: they may be real",
}
_DOMAIN_IDS = {"diagnosis": "Condition", "procedure": "Procedure", "drug": "Drug", "other": "Observation"}


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write person, visit_occurrence, the tables of codes, concept, vocabulary and cdm_source."""
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    domains = domain_of_code(cohort.vocabulary)
    rows = dict.fromkeys(TABLES, 0)
    with Sheets(folder) as sheets:
        for block in blocks(cohort):
            _add_people(sheets, block)
            _add_visits(sheets, block)
            for domain in TABLES:
                rows[domain] += _add_codes(sheets, block, domain, domains, rows[domain])
            rows["other"] += _add_facts(sheets, block, keys, rows["other"])
        _add_vocabulary(sheets, cohort)
        _add_source(sheets, cohort)


def _repeated(value: Any, n: int) -> NDArray[Any]:
    return np.full(n, value)


def _add_people(sheets: Sheets, block: Block) -> None:
    """Append to person and observation_period."""
    n, ids = block.cohort.n_patients, block.patients + FIRST_PERSON
    starts = block.cohort.patient_starts
    zeros = _repeated(0, n)
    sheets.add(
        "person",
        {
            "person_id": ids,
            "gender_concept_id": _by_category(block.cohort, "sex", lambda name: _GENDERS.get(name[:1].upper(), 0)),
            "year_of_birth": _by_category(block.cohort, "age_band", _birth_year),
            "race_concept_id": zeros,
            "ethnicity_concept_id": zeros,
            "person_source_value": ids.astype(str),
        },
    )
    sheets.add(
        "observation_period",
        {
            "observation_period_id": ids,
            "person_id": ids,
            "observation_period_start_date": block.dates[starts[:-1]],
            "observation_period_end_date": block.dates[starts[1:] - 1],
            "period_type_concept_id": _repeated(_EHR, n),
        },
    )


def _by_category(cohort: Cohort, name: str, number: Any) -> NDArray[np.int64]:
    """A number for each patient from the category of an attribute; 0 where it is unknown."""
    if name not in cohort.attributes:
        return np.zeros(cohort.n_patients, dtype=np.int64)
    attribute = cohort.attributes[name]
    numbers = np.array([*(number(category) for category in attribute.categories), 0], dtype=np.int64)
    return numbers[attribute.values]


def _birth_year(band: str) -> int:
    """The latest year of birth in an age band such as 60-69, counted from the first day of the calendar."""
    age = re.match(r"\d{1,3}", band)
    return int(FIRST_DAY.astype("datetime64[Y]").astype(int) + 1970) - int(age[0]) if age else 0


def _add_visits(sheets: Sheets, block: Block) -> None:
    """Append to visit_occurrence."""
    n = block.cohort.n_visits
    sheets.add(
        "visit_occurrence",
        {
            "visit_occurrence_id": block.visits + 1,
            "person_id": block.patient_of_visit + FIRST_PERSON,
            "visit_concept_id": _repeated(0, n),
            "visit_start_date": block.dates,
            "visit_end_date": block.dates,
            "visit_type_concept_id": _repeated(_EHR, n),
        },
    )


def _add_codes(sheets: Sheets, block: Block, domain: str, domains: NDArray[np.str_], before: int) -> int:
    """Append the codes of one domain to its table; how many."""
    import pyarrow as pa

    codes = np.asarray(block.cohort.codes)
    chosen = np.flatnonzero(domains[codes] == domain)
    visit, code = block.cohort.visit_of_entry[chosen], codes[chosen]
    table, stem, dates = TABLES[domain]
    # The table is written even where it is empty, so that a reader finds it.
    tokens = pa.array(block.cohort.vocabulary.tokens, pa.string())
    sheets.add(
        table,
        {
            f"{table}_id": np.arange(len(chosen)) + before + 1,
            "person_id": block.patient_of_visit[visit] + FIRST_PERSON,
            f"{stem}_concept_id": _repeated(0, len(chosen)),
            **dict.fromkeys(dates, block.dates[visit]),
            f"{stem}_type_concept_id": _repeated(_EHR, len(chosen)),
            "visit_occurrence_id": pa.array(block.visits[visit] + 1, pa.int64()),
            f"{stem}_source_value": tokens.take(pa.array(code)),
            f"{stem}_source_concept_id": code.astype(np.int64) + FIRST_CONCEPT,
        },
    )
    return len(chosen)


def _add_facts(sheets: Sheets, block: Block, keys: list[str], before: int) -> int:
    """Append attributes and labels to observation, without a visit; how many."""
    import pyarrow as pa

    patient, key = facts(block.cohort)
    n = len(patient)
    sheets.add(
        "observation",
        {
            "observation_id": np.arange(n) + before + 1,
            "person_id": patient + block.first_patient + FIRST_PERSON,
            "observation_concept_id": _repeated(0, n),
            "observation_date": block.dates[block.cohort.patient_starts[:-1]][patient],
            "observation_type_concept_id": _repeated(_EHR, n),
            "visit_occurrence_id": pa.nulls(n, pa.int64()),
            "observation_source_value": pa.array(keys, pa.string()).take(pa.array(key)),
            "observation_source_concept_id": _repeated(0, n),
        },
    )
    return n


def _add_vocabulary(sheets: Sheets, cohort: Cohort) -> None:
    """Write concept and vocabulary: every code is a concept of one's own, under its own system."""
    listed = cohort.vocabulary.codes
    systems = [code.system or "None" for code in listed]
    sheets.add(
        "concept",
        {
            "concept_id": np.arange(len(listed)) + FIRST_CONCEPT,
            "concept_name": [plain_cell(code.description or code.token) for code in listed],
            "domain_id": [_DOMAIN_IDS[code.domain] for code in listed],
            "vocabulary_id": systems,
            "concept_class_id": ["Undefined"] * len(listed),
            "concept_code": [code.bare for code in listed],
            "valid_start_date": _repeated(np.datetime64("1970-01-01"), len(listed)),
            "valid_end_date": _repeated(np.datetime64("2099-12-31"), len(listed)),
        },
    )
    names = sorted(set(systems))
    sheets.add(
        "vocabulary",
        {"vocabulary_id": names, "vocabulary_name": names, "vocabulary_concept_id": _repeated(0, len(names))},
    )


def _add_source(sheets: Sheets, cohort: Cohort) -> None:
    """Write cdm_source, which says what kind of patients these are."""
    kind = cohort.origin.kind
    day = _repeated(FIRST_DAY, 1)
    sheets.add(
        "cdm_source",
        {
            "cdm_source_name": [NAMES[kind]],
            "cdm_source_abbreviation": ["SYNTHETIC" if kind.made_up else kind.value.upper()],
            "cdm_holder": ["unknown"],
            "source_description": [DESCRIPTIONS[kind]],
            "cdm_etl_reference": [f"adapcla export {__version__}"],
            "source_release_date": day,
            "cdm_release_date": day,
            "cdm_version": ["v5.4"],
            "cdm_version_concept_id": [_CDM_54],
            "vocabulary_version": ["codes of the cohort"],
        },
    )
