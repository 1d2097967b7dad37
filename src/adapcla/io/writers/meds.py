"""MEDS 0.4 out: events in Parquet, every code listed, subjects split.

A visit has the events ADMISSION and DISCHARGE, with their word where it says its kind and ending
(`ADMISSION//inpatient`); its codes stand at its end, when they are known. A column `visit_id` keeps the visits, which
MEDS itself does not know. Sex is `GENDER//F`, any other attribute `ATTRIBUTE//name//category`, both without a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Attribute, Cohort, Kind, code_systems
from adapcla.data.ragged import count_values
from adapcla.data.split import split_positions
from adapcla.errors import InputError
from adapcla.files import write_json
from adapcla.io.codebook import NAMES
from adapcla.io.database import Database, quoted
from adapcla.io.options import WriteOptions
from adapcla.io.writers.tables import (
    FIRST_PATIENT,
    Part,
    add_times,
    attribute_column,
    attributes_query,
    cohort_tables,
)
from adapcla.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

#: Events beside the codes of a cohort.
ADMISSION, DISCHARGE, BIRTH, DEATH = "ADMISSION", "DISCHARGE", "MEDS_BIRTH", "MEDS_DEATH"
_EVENT_NAMES = {
    ADMISSION: "A visit begins",
    DISCHARGE: "A visit ends",
    BIRTH: "Birth, by the age at the first visit",
    DEATH: "Death, at the end of the last visit",
}
#: The splits of MEDS, and the split that each part of a cohort is.
SPLITS = ("train", "tuning", "held_out")
_SPLIT_OF_PART = {"train": "train", "valid": "tuning", "test": "held_out", "control": "held_out"}
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

# Of events at one time, those of a smaller rank stand first.
_EVENTS = f"""
    SELECT patient, CAST(NULL AS TIMESTAMP) AS time, 0 AS rank, place AS event, code, CAST(NULL AS FLOAT) AS value,
        CAST(NULL AS BIGINT) AS visit FROM facts
    UNION ALL SELECT patient, make_timestamp(birth_year, 1, 1, 0, 0, 0), 1, 0, '{BIRTH}', NULL, NULL FROM patients
        WHERE birth_year IS NOT NULL
    UNION ALL SELECT patient, begins, 2, visit, '{ADMISSION}' || coalesce('//' || kind, ''), NULL, visit FROM stays
    UNION ALL SELECT e.patient, s.ends, 3, e.event, c.token, e.value, e.visit FROM events e
        JOIN codes c USING (code) JOIN stays s USING (visit) WHERE c.role = ''
    UNION ALL SELECT patient, ends, 4, visit, '{DISCHARGE}' || coalesce('//' || ending, ''), NULL, visit FROM stays
    UNION ALL SELECT patient, max_by(ends, visit), 5, 0, '{DEATH}', NULL, NULL FROM stays JOIN patients USING (patient)
        WHERE died GROUP BY patient"""


def write_meds(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write data/SPLIT/PART.parquet for each split, and the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    cohort, first = part.cohort, part.before[0]
    own = tuple(f"{name}//" for name in (ADMISSION, DISCHARGE, "GENDER", "ATTRIBUTE"))
    if taken := [name for name in cohort.vocabulary.tokens if name in _EVENT_NAMES or name.startswith(own)]:
        raise InputError(
            f"a code called {taken[0]}",
            expected="codes other than the events that MEDS needs",
            remedy="rename the code, or export to another format",
        )
    cohort_tables(db, cohort, part.before)
    add_times(db)
    _add_facts(db, cohort)
    split = pa.array(SPLITS).take(pa.array(_splits(part.whole, options)[first : first + cohort.n_patients]))
    db.add("splits", pa.table({"patient": pa.array(np.arange(cohort.n_patients) + first), "split": split}))
    for name in SPLITS:
        (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        if db.number(f"SELECT count(*) FROM splits WHERE split = '{name}'"):
            db.copy(
                f"""SELECT patient + {FIRST_PATIENT} AS subject_id, time, code, value AS numeric_value,
                    visit AS visit_id FROM ({_EVENTS}) JOIN splits USING (patient) WHERE split = '{name}'
                    ORDER BY patient, time NULLS FIRST, rank, event""",
                folder / "data" / name / f"{part.number}.parquet",
            )
    metadata = folder / "metadata"
    metadata.mkdir(exist_ok=True)
    subjects = f"SELECT patient + {FIRST_PATIENT} AS subject_id, split FROM splits ORDER BY patient"
    db.copy(subjects, part.file(metadata, "subject_splits", ".parquet"))
    if part.number == 0:
        pq.write_table(_code_table(db, cohort, part.whole.attributes), metadata / "codes.parquet")
        write_json(metadata / "dataset.json", _description(part.whole))


def finish_meds(db: Database, folder: Path) -> None:
    """Join what the parts say of the splits of their subjects to the one file that MEDS has for it."""
    parts = folder / "metadata" / "subject_splits"
    if parts.is_dir():
        query = f"SELECT * FROM read_parquet({quoted(str(parts / '*.parquet'))}) ORDER BY subject_id"
        db.copy(query, parts.with_suffix(".parquet"))
        shutil.rmtree(parts)


def _add_facts(db: Database, cohort: Cohort) -> None:
    """Make `facts`: patient, place, code of every known attribute."""
    sex = attribute_column(cohort, "sex")
    db.run(
        f"""CREATE TABLE facts AS SELECT patient, -1 AS place, 'GENDER//' || {sex} AS code FROM patients
            WHERE {sex} IS NOT NULL UNION ALL
            SELECT patient, place, 'ATTRIBUTE//' || name || '//' || category
            FROM ({attributes_query(cohort, without=("sex",))})"""
    )


def _splits(cohort: Cohort, options: WriteOptions) -> NDArray[np.int64]:
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


def _description(cohort: Cohort) -> dict[str, object]:
    """What dataset.json says."""
    times = {**_TIMES, "calendar": _NO_DAYS} if cohort.days is None else dict(_TIMES)
    if any(code.domain == "stay" and code.unit for code in cohort.vocabulary.codes):
        times["visit"] = _LENGTHS
    return {
        "dataset_name": NAMES[cohort.origin.kind],
        "dataset_version": __version__,
        "etl_name": "adapcla export",
        "etl_version": __version__,
        "meds_version": version("meds"),
        "other_extension_columns": ["visit_id"],
        "times": times,
    }


def _code_table(db: Database, cohort: Cohort, attributes: Mapping[str, Attribute]) -> pa.Table:
    """Every code with its description, domain and parents; attributes, events and the parents are listed too."""
    import pyarrow as pa

    listed = cohort.vocabulary
    parents = code_systems.categories(listed)
    events = {"kind": f"{ADMISSION}//", "ending": f"{DISCHARGE}//"}
    named = [
        events[role] + word if role in events else token
        for role, word, token in db.query("SELECT role, word, token FROM codes ORDER BY code")
    ]
    rows = [
        (name, code.description, None if parent is None else [parent.token], code.domain, code.unit)
        for name, code, parent in zip(named, listed.codes, parents, strict=True)
    ]
    facts = sorted(
        f"GENDER//{category}" if name == "sex" else f"ATTRIBUTE//{name}//{category}"
        for name, attribute in attributes.items()
        for number, category in enumerate(attribute.categories)
        if count_values(np.asarray(attribute.values) + 1, len(attribute.categories) + 1)[number + 1]
    )
    rows += [(code, code.replace("//", ": "), None, "other", "") for code in facts]
    rows += [(name, words, None, "other", "") for name, words in _EVENT_NAMES.items()]
    above = {parent.token: parent for parent in parents if parent is not None and parent.token not in listed.index}
    rows += [(token, parent.description, None, parent.domain, "") for token, parent in sorted(above.items())]
    code, description, parent_codes, domain, unit = zip(*rows, strict=True)
    columns = {
        "code": pa.array(code, pa.string()),
        "description": pa.array([text or None for text in description], pa.string()),
        "parent_codes": pa.array(parent_codes, pa.list_(pa.string())),
        "domain": pa.array(domain, pa.string()),
    }
    if cohort.values is not None:
        columns["unit"] = pa.array([text or None for text in unit], pa.string())
    return pa.table(columns)
