"""Exports: a cohort in the formats of others.

`write` picks one of `FORMATS` and hands it a database; each format makes the tables of `tables.py` there and writes
what it selects from them. CSV, Parquet and Excel hold everything and read back to the same cohort. MEDS, OMOP and FHIR
hold codes, visits, times, values, sex and age, and read back as anybody's data of that format. Of more than
`PATIENTS_AT_ONCE` patients each table is a folder of parts, which readers take for one table.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Cohort
from adapcla.data.ragged import release_pages
from adapcla.engine import n_workers, run_tasks
from adapcla.errors import InputError, UsageError
from adapcla.files import fresh_folder
from adapcla.io.database import Database
from adapcla.io.options import WriteOptions
from adapcla.io.writers.tables import Part

#: Format → the module with its function `write_FORMAT`.
FORMATS: dict[str, str] = {
    "csv": "flat",
    "parquet": "flat",
    "xlsx": "flat",
    "meds": "meds",
    "omop": "omop",
    "fhir": "fhir",
}
Writer = Callable[[Database, Part, Path, WriteOptions], None]
#: Formats that may stand in several files, and the patients of each of these.
IN_PARTS, PATIENTS_AT_ONCE = ("csv", "parquet", "meds", "omop"), 100_000


def check_format(to: str) -> None:
    """Raise unless `to` is one of `FORMATS`."""
    if to not in FORMATS:
        raise UsageError(f"--to {to!r}\nexpected: {', '.join(FORMATS)}\nto do: choose one of these")


def writable(cohort: Cohort, to: str, options: WriteOptions) -> Cohort:
    """The patients that a format can hold: all, but for OMOP those whose year of birth is known or was given."""
    held = _held_positions(cohort, to, options)
    if not len(held):
        raise InputError(
            "no patient whose age is known",
            expected="an attribute age_band or age, because OMOP asks for a year of birth",
            remedy="name a year that stands for the unknown ones, such as --birth-year 1950",
        )
    return cohort if len(held) == cohort.n_patients else cohort.subset(held)


def _held_positions(cohort: Cohort, to: str, options: WriteOptions) -> NDArray[np.int64]:
    """The positions of the patients that a format can hold."""
    from adapcla.io.writers.tables import birth_years

    if to != "omop" or options.birth_year is not None:
        return np.arange(cohort.n_patients)
    return np.flatnonzero(birth_years(cohort))


def not_held(cohort: Cohort, to: str, options: WriteOptions) -> str:
    """What of a cohort a format has no place for, in a sentence; nothing where all of it is written.

    >>> not_held(Cohort.of([[["A"]]]), "csv", WriteOptions())
    ''
    """
    lost = []
    if left_out := cohort.n_patients - len(_held_positions(cohort, to, options)):
        lost.append(f"{left_out:,} patients are left out: their age is not known (--birth-year names a year for them)")
    if FORMATS[to] != "flat" and cohort.label_names:
        lost.append(f"{to} has no place for labels: they are not written (csv, parquet and xlsx hold them)")
    return "; ".join(lost)


def write(
    cohort: Cohort, folder: str | Path, to: str, overwrite: bool = False, options: WriteOptions | None = None
) -> Path:
    """Write a cohort to a folder in one of `FORMATS`, whole or not at all; the folder comes back.

    Many patients are written in parts, each by a task (`adapcla.engine`), so that memory does not grow with them.
    """
    from adapcla.io.codebook import Codebook

    check_format(to)
    if cohort.n_patients == 0:
        raise InputError("a cohort without patients", remedy="export a cohort with patients")
    options = options or WriteOptions()
    if not len(_held_positions(cohort, to, options)):
        writable(cohort, to, options)  # which says why
    if lost := not_held(cohort, to, options):
        say(lost)
    step = PATIENTS_AT_ONCE if to in IN_PARTS else cohort.n_patients
    bounds = [(low, min(low + step, cohort.n_patients)) for low in range(0, cohort.n_patients, step)]
    with fresh_folder(Path(folder), overwrite) as temporary:
        source: Cohort | Path = cohort
        if n_workers() > 1:
            # Workers read the patients from a folder that they see, too.
            source = cohort.save(temporary / ".cohort")
        parts = ((source, to, temporary, options, bounds, number) for number in range(len(bounds)))
        with meter("export", cohort.n_patients) as bar:
            for (low, stop), _ in zip(bounds, run_tasks(_write_part, parts), strict=True):
                bar.advance(stop - low)
        shutil.rmtree(temporary / ".cohort", ignore_errors=True)
        if to == "meds":
            from adapcla.io.writers.meds import finish_meds

            with Database() as db:
                finish_meds(db, temporary)
        if FORMATS[to] == "flat":
            # It keeps the cohort's own descriptions, the order of categories and the names of labels.
            Codebook.of(cohort).write(temporary)
    return Path(folder)


def _write_part(
    source: Cohort | Path, to: str, folder: Path, options: WriteOptions, bounds: list[tuple[int, int]], number: int
) -> None:
    """Write the patients between two bounds, with ids that go on behind those of the parts before."""
    from adapcla.data.code_systems import add_descriptions

    whole = source if isinstance(source, Cohort) else _cohort_in(source)
    first, stop = bounds[number]
    some = whole if len(bounds) == 1 else whole.between(first, stop)
    known = _held_positions(some, to, options)
    held = some if len(known) == some.n_patients else some.subset(known)
    before = (first, int(whole.patient_starts[first]), int(whole.visit_starts[whole.patient_starts[first]]))
    writer: Writer = getattr(import_module(f"adapcla.io.writers.{FORMATS[to]}"), f"write_{to}")
    with Database(aloud=False) as db:
        writer(db, Part(whole, add_descriptions(held), number, len(bounds), before), folder, options)
    for array in (whole.codes, whole.visit_starts, whole.patient_starts, whole.days, whole.values):
        if array is not None:
            release_pages(array)


@lru_cache(maxsize=1)
def _cohort_in(folder: Path) -> Cohort:
    """The cohort of a folder; a worker opens it once."""
    return Cohort.open(folder)


__all__ = ["FORMATS", "WriteOptions", "check_format", "not_held", "writable", "write"]
