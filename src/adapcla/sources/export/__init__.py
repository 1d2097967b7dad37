"""The ways out: a cohort in other people's formats, each of which reads back to the same cohort.

Lives here: one file a format, each with `write(cohort, folder, options)`; the rows that they share.
May not: read anything; each format is read by the source of its name (`csv` by `table`).
May import: records, the codebook and the ground floor; pyarrow and validators inside functions.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from adapcla.errors import InputError, UsageError
from adapcla.files import fresh_folder
from adapcla.records import Cohort
from adapcla.sources.export.options import ExportOptions

#: Format → the module that writes it.
FORMATS: dict[str, str] = {name: f"adapcla.sources.export.{name}" for name in ("meds", "omop", "fhir", "csv", "halo")}


def check_format(to: str) -> None:
    """Raise unless `to` is one of `FORMATS`."""
    if to not in FORMATS:
        raise UsageError(f"--to {to!r}\nexpected: {', '.join(FORMATS)}\nto do: choose one of these")


def write(
    cohort: Cohort, folder: str | Path, to: str, overwrite: bool = False, options: ExportOptions | None = None
) -> Path:
    """Write a cohort to a folder in one of `FORMATS`, whole or not at all; the folder comes back."""
    from adapcla.sources.codebook import Codebook
    from adapcla.sources.codes import described

    check_format(to)
    if cohort.n_patients == 0:
        raise InputError("a cohort without patients", remedy="export one that has some")
    with fresh_folder(Path(folder), overwrite) as temporary:
        # The codebook keeps the cohort's own descriptions, so that it comes back as it was.
        import_module(FORMATS[to]).write(described(cohort), temporary, options or ExportOptions())
        Codebook.of(cohort).write(temporary)
    return Path(folder)


__all__ = ["FORMATS", "ExportOptions", "check_format", "write"]
