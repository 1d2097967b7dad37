"""Exports: a cohort in the formats of others.

`write` picks one of `FORMATS` and hands it a database; each format makes the tables of `tables.py` there and writes
what it selects from them. CSV, Parquet and Excel hold everything and read back to the same cohort. MEDS, OMOP and FHIR
hold codes, visits, times, values, sex and age, and read back as anybody's data of that format.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import InputError, UsageError
from adapcla.files import fresh_folder
from adapcla.io.database import Database
from adapcla.io.options import WriteOptions

#: Format → the module with its function `write_FORMAT`.
FORMATS: dict[str, str] = {
    "csv": "flat",
    "parquet": "flat",
    "xlsx": "flat",
    "meds": "meds",
    "omop": "omop",
    "fhir": "fhir",
}
Writer = Callable[[Database, Cohort, Path, WriteOptions], None]


def check_format(to: str) -> None:
    """Raise unless `to` is one of `FORMATS`."""
    if to not in FORMATS:
        raise UsageError(f"--to {to!r}\nexpected: {', '.join(FORMATS)}\nto do: choose one of these")


def writable(cohort: Cohort, to: str, options: WriteOptions) -> Cohort:
    """The patients that a format can hold: all, but for OMOP those whose year of birth is known or was given."""
    from adapcla.io.writers.tables import birth_years

    if to != "omop" or options.birth_year is not None:
        return cohort
    known = np.flatnonzero(birth_years(cohort))
    if not len(known):
        raise InputError(
            "no patient whose age is known",
            expected="an attribute age_band or age, because OMOP asks for a year of birth",
            remedy="name a year that stands for the unknown ones, such as --birth-year 1950",
        )
    return cohort if len(known) == cohort.n_patients else cohort.subset(known)


def not_held(cohort: Cohort, to: str, options: WriteOptions) -> str:
    """What of a cohort a format has no place for, in a sentence; nothing where all of it is written.

    >>> not_held(Cohort.of([[["A"]]]), "csv", WriteOptions())
    ''
    """
    lost = []
    if left_out := cohort.n_patients - writable(cohort, to, options).n_patients:
        lost.append(f"{left_out:,} patients are left out: their age is not known (--birth-year names a year for them)")
    if FORMATS[to] != "flat" and cohort.label_names:
        lost.append(f"{to} has no place for labels: they are not written (csv, parquet and xlsx hold them)")
    return "; ".join(lost)


def write(
    cohort: Cohort, folder: str | Path, to: str, overwrite: bool = False, options: WriteOptions | None = None
) -> Path:
    """Write a cohort to a folder in one of `FORMATS`, whole or not at all; the folder comes back."""
    from adapcla.data.code_systems import add_descriptions
    from adapcla.io.writers.flat import Codebook

    check_format(to)
    if cohort.n_patients == 0:
        raise InputError("a cohort without patients", remedy="export a cohort with patients")
    options = options or WriteOptions()
    if lost := not_held(cohort, to, options):
        say(lost)
    writer: Writer = getattr(import_module(f"adapcla.io.writers.{FORMATS[to]}"), f"write_{to}")
    with fresh_folder(Path(folder), overwrite) as temporary, Database() as db:
        writer(db, add_descriptions(writable(cohort, to, options)), temporary, options)
        if FORMATS[to] == "flat":
            # It keeps the cohort's own descriptions, the order of categories and the names of labels.
            Codebook.of(cohort).write(temporary)
    return Path(folder)


__all__ = ["FORMATS", "WriteOptions", "check_format", "not_held", "writable", "write"]
