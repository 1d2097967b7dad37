"""MEDS 0.4 out: events in Parquet, every code listed, subjects split, all validated by the `meds` package."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Kind, code_systems
from adapcla.data.split import split_positions
from adapcla.errors import InputError
from adapcla.files import write_json
from adapcla.io.codebook import NAMES, Codebook
from adapcla.io.readers.meds import ADMISSION, BIRTH, DEATH, DISCHARGE, EVENTS, WORD
from adapcla.io.writers.options import ExportOptions
from adapcla.io.writers.rows import Block, birth_years, blocks, deaths, facts, times
from adapcla.io.writers.visits import END_PREFIX, KIND_PREFIX, StayCodes, code_of_visit
from adapcla.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

#: Subject ids of ours start here, where no hospital's do.
FIRST_SUBJECT = 9_000_000_000_000
#: The splits of MEDS, and the split that each part of a cohort is.
SPLITS = ("train", "tuning", "held_out")
_SPLIT_OF_PART = {"train": "train", "valid": "tuning", "test": "held_out", "control": "held_out"}
_DESCRIPTIONS = {
    ADMISSION: "A visit begins",
    DISCHARGE: "A visit ends",
    BIRTH: "Birth, by the age at the first visit",
    DEATH: "Death, at the end of the last visit",
}
#: What the times of a dataset mean, for dataset.json.
_TIMES = {
    "calendar": "every subject's first visit is on 2000-01-01, the others as many days later as they were",
    "visit": "the length of visits is not known: they begin at midnight and end at noon of their day; visits of one "
    "day share it in their order; codes are known when the visit ends",
    BIRTH: "derived: 1 January of 2000 less the age at the first visit (the middle of its band, or an open bound)",
    DEATH: "derived: the cohort knows who died, not when; written at the end of the last visit",
}
_LENGTHS = (
    "visits begin at midnight of their day, visits of one day share it in their order; a visit ends as many days later "
    "as it took, or at noon of its day where that is not known; codes are known when the visit ends"
)
_NO_DAYS = "the cohort has no days: visits stand on consecutive days, and the distances between them mean nothing"


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write a MEDS dataset; a column `visit_id` keeps the visits, which MEDS itself does not know."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from meds.schema import DataSchema

    reserved = tuple(name + WORD for name in (ADMISSION, DISCHARGE))
    if taken := [name for name in cohort.vocabulary.tokens if name in EVENTS or name.startswith(reserved)]:
        raise InputError(
            f"a code called {taken[0]}",
            expected="codes other than the events that MEDS needs",
            remedy="rename the code, or export to another format",
        )
    for name in ("metadata", *(f"data/{split}" for split in SPLITS)):
        (folder / name).mkdir(parents=True)
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    split = _split(cohort, options)
    for number, block in enumerate(blocks(cohort)):
        table = DataSchema.align(_events(block, keys))
        DataSchema.validate(table)
        split_of_row = split[np.asarray(table["subject_id"]) - FIRST_SUBJECT]
        for position in np.unique(split_of_row):
            path = folder / "data" / SPLITS[position] / f"{number:04d}.parquet"
            pq.write_table(table.filter(pa.array(split_of_row == position)), path, compression="zstd")
    _write_metadata(cohort, folder, keys, split)


def _split(cohort: Cohort, options: ExportOptions) -> NDArray[np.int64]:
    """The position in `SPLITS` of each patient's: as asked for, by the part that the cohort is, or drawn."""
    name: str | None = options.split
    if name is None and cohort.origin.parts:
        name = _SPLIT_OF_PART[cohort.origin.parts[-1].name]
    elif name is None and cohort.origin.kind is Kind.SYNTHETIC:
        name = "train"
    if name is not None:
        return np.full(cohort.n_patients, SPLITS.index(name), dtype=np.int64)
    where = split_positions(cohort.n_patients)
    drawn = np.zeros(cohort.n_patients, dtype=np.int64)
    drawn[where.valid], drawn[where.test] = 1, 2
    return drawn


def _events(block: Block, keys: list[str]) -> pa.Table:
    """Facts without a time, then birth, visits with their codes, and death, subject by subject."""
    import pyarrow as pa

    cohort = block.cohort
    names = [*cohort.vocabulary.tokens, *keys, *EVENTS]
    event = {name: len(names) - len(EVENTS) + number for number, name in enumerate(EVENTS)}
    stay = StayCodes.of(cohort.vocabulary)
    admitted, discharged = (
        _worded(names, cohort, mask, name, prefix)
        for mask, name, prefix in ((stay.kinds, ADMISSION, KIND_PREFIX), (stay.ends, DISCHARGE, END_PREFIX))
    )
    begin, end = times(cohort)
    fact_patient, fact_key = facts(cohort)
    born = birth_years(cohort)
    known, dead = np.flatnonzero(born), np.flatnonzero(deaths(cohort))
    entry = np.flatnonzero(~stay.words[np.asarray(cohort.codes)])
    visits, visit = np.arange(cohort.n_visits), cohort.visit_of_entry[entry]
    of_visit = cohort.patient_of_visit
    # Of each kind of event: patient, time, code, the visit (-1: none) and the entry (-1: none). Facts have no time,
    # which sorts first.
    pieces: list[tuple[Any, Any, Any, Any, Any]] = [
        (fact_patient, np.datetime64("NaT", "us"), fact_key + cohort.n_codes, -1, -1),
        (known, (born[known] - 1970).astype("datetime64[Y]").astype("datetime64[us]"), event[BIRTH], -1, -1),
        (of_visit, begin, admitted, visits, -1),
        (of_visit[visit], end[visit], np.asarray(cohort.codes, dtype=np.int64)[entry], visit, entry),
        (of_visit, end, discharged, visits, -1),
        (dead, end[block.last_visit[dead]], event[DEATH], -1, -1),
    ]
    patient, time, number, stays, entries = (
        np.concatenate([np.broadcast_to(piece[column], len(piece[0])) for piece in pieces]) for column in range(5)
    )
    # Stable: what happens at one time stands in the order of the pieces.
    order = np.lexsort((time.view(np.int64), patient))
    time, stays = time[order], stays[order]
    return pa.table(
        {
            "subject_id": pa.array(patient[order] + block.first_patient + FIRST_SUBJECT, pa.int64()),
            "time": pa.array(time, pa.timestamp("us"), mask=np.isnat(time)),
            "code": pa.array(names, pa.string()).take(pa.array(number[order])),
            "numeric_value": _numeric(cohort, entries[order]),
            "visit_id": pa.array(stays + block.first_visit, pa.int64(), mask=stays < 0),
        }
    )


def _worded(names: list[str], cohort: Cohort, mask: NDArray[np.bool_], event: str, prefix: str) -> NDArray[np.int64]:
    """The number of each visit's event in `names`; those with a word, such as ADMISSION//inpatient, are added there."""
    numbers = np.full(cohort.n_codes + 1, names.index(event), dtype=np.int64)
    for code in np.flatnonzero(mask):
        numbers[code] = len(names)
        names.append(event + WORD + cohort.vocabulary.tokens[code].removeprefix(prefix))
    return numbers[code_of_visit(cohort, mask)]


def _numeric(cohort: Cohort, entry: NDArray[np.int64]) -> pa.Array:
    """The number of each event's entry, nothing where it has none."""
    import pyarrow as pa

    if cohort.values is None:
        return pa.nulls(len(entry), pa.float32())
    values = np.append(np.asarray(cohort.values), np.float32(np.nan))[entry]
    return pa.array(values, pa.float32(), mask=np.isnan(values))


def _write_metadata(cohort: Cohort, folder: Path, keys: list[str], split: NDArray[np.int64]) -> None:
    """Write the list of codes, the split of subjects and what the dataset is."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from meds import schema

    pq.write_table(schema.CodeMetadataSchema.align(_code_table(cohort, keys)), folder / schema.code_metadata_filepath)
    subjects = np.arange(cohort.n_patients, dtype=np.int64) + FIRST_SUBJECT
    splits = pa.table({"subject_id": pa.array(subjects), "split": pa.array(SPLITS).take(pa.array(split))})
    pq.write_table(schema.SubjectSplitSchema.align(splits), folder / schema.subject_splits_filepath)
    dataset = {
        "dataset_name": NAMES[cohort.origin.kind],
        "dataset_version": __version__,
        "etl_name": "adapcla export",
        "etl_version": __version__,
        "meds_version": version("meds"),
        "other_extension_columns": ["visit_id"],
        "times": _times(cohort),
    }
    schema.DatasetMetadataSchema.validate(dataset)
    write_json(folder / schema.dataset_metadata_filepath, dataset)


def _times(cohort: Cohort) -> dict[str, str]:
    """What the times of the dataset mean."""
    said = {**_TIMES, "calendar": _NO_DAYS} if cohort.days is None else dict(_TIMES)
    return {**said, "visit": _LENGTHS} if StayCodes.of(cohort.vocabulary).length >= 0 else said


def _code_table(cohort: Cohort, keys: list[str]) -> pa.Table:
    """Every code with its description and parents; facts, events, and the parents themselves are listed too."""
    import pyarrow as pa

    listed, stay = cohort.vocabulary, StayCodes.of(cohort.vocabulary)
    parents = code_systems.categories(listed)
    named = [
        ADMISSION + WORD + code.token.removeprefix(KIND_PREFIX)
        if kind
        else DISCHARGE + WORD + code.token.removeprefix(END_PREFIX)
        if end
        else code.token
        for code, kind, end in zip(listed.codes, stay.kinds, stay.ends, strict=True)
    ]
    rows = [
        (name, code.description, None if parent is None else [parent.token], code.domain)
        for name, code, parent in zip(named, listed.codes, parents, strict=True)
    ]
    rows += [(key, key.replace("//", ": "), None, "other") for key in keys]
    rows += [(name, _DESCRIPTIONS[name], None, "other") for name in EVENTS]
    above = {parent.token: parent for parent in parents if parent is not None and parent.token not in listed.index}
    rows += [(token, parent.description, None, parent.domain) for token, parent in sorted(above.items())]
    code, description, parent_codes, domain = zip(*rows, strict=True)
    columns = {
        "code": pa.array(code, pa.string()),
        "description": pa.array([text or None for text in description], pa.string()),
        "parent_codes": pa.array(parent_codes, pa.list_(pa.string())),
        "domain": pa.array(domain, pa.string()),
    }
    if cohort.values is not None:
        units = [found.unit or None for found in listed.codes]
        columns["unit"] = pa.array(units + [None] * (len(rows) - len(units)), pa.string())
    return pa.table(columns)
