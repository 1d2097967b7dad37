"""Exports: a cohort in other people's formats, each of which reads back to the same cohort.

Lives here: one file per format, each with `write(cohort, folder, options)`; the rows that they share.
May not: read anything; each format is read by the source of its name (`csv` by `table`).
May import: data, the codebook and the ground floor; pyarrow and validators inside functions.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import InputError, UsageError
from adapcla.files import fresh_folder
from adapcla.io.writers.options import ExportOptions

#: Format → the module that writes it.
FORMATS: dict[str, str] = {name: f"adapcla.io.writers.{name}" for name in ("meds", "omop", "fhir", "csv", "halo")}


def check_format(to: str) -> None:
    """Raise unless `to` is one of `FORMATS`."""
    if to not in FORMATS:
        raise UsageError(f"--to {to!r}\nexpected: {', '.join(FORMATS)}\nto do: choose one of these")


def writable(cohort: Cohort, to: str, options: ExportOptions) -> Cohort:
    """The patients that a format can hold: all, but for OMOP those whose year of birth is known or was given."""
    from adapcla.io.writers.rows import birth_years

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


def not_held(cohort: Cohort, to: str, options: ExportOptions) -> str:
    """What of a cohort a format has no place for, in a sentence; nothing where it reads back to the same cohort.

    >>> not_held(Cohort.of([[["A"]]]), "csv", ExportOptions())
    ''
    """
    if to == "halo" and cohort.values is not None:
        return "the pickles of HALO have no place for numbers: what was measured is written, not what came out"
    left_out = cohort.n_patients - writable(cohort, to, options).n_patients
    if left_out:
        return f"{left_out:,} patients are left out: their age is not known (--birth-year names a year for them)"
    return ""


def write(
    cohort: Cohort, folder: str | Path, to: str, overwrite: bool = False, options: ExportOptions | None = None
) -> Path:
    """Write a cohort to a folder in one of `FORMATS`, whole or not at all; the folder comes back."""
    from adapcla.data.code_systems import add_descriptions
    from adapcla.io.codebook import Codebook

    check_format(to)
    if cohort.n_patients == 0:
        raise InputError("a cohort without patients", remedy="export a cohort with patients")
    options = options or ExportOptions()
    if lost := not_held(cohort, to, options):
        say(lost)
    if to == "halo":
        cohort = cohort.without_values()
    kept = writable(cohort, to, options)
    with fresh_folder(Path(folder), overwrite) as temporary:
        # The codebook keeps the cohort's own descriptions, so that it comes back as it was.
        import_module(FORMATS[to]).write(add_descriptions(kept), temporary, options)
        Codebook.of(cohort).write(temporary)
    return Path(folder)


__all__ = ["FORMATS", "ExportOptions", "check_format", "not_held", "writable", "write"]
