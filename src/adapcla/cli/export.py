"""`adapcla export`: a cohort in somebody else's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from adapcla.cli.options import AsJson, CohortFolder, Out, Overwrite, emit
from adapcla.console import say

#: Formats that a source of another name reads back.
_READER = {"csv": "table"}


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("export")(export)


def export(
    cohort: CohortFolder,
    to: Annotated[str, typer.Option("--to", help="meds, omop, fhir, csv or halo.")],
    out: Out,
    split: Annotated[
        Literal["train", "tuning", "held_out"] | None,
        typer.Option("--split", help="MEDS: the split of all patients; without it, their origin says."),
    ] = None,
    visit_type: Annotated[
        Literal["inpatient", "outpatient", "emergency"] | None,
        typer.Option("--visit-type", help="OMOP, FHIR: what kind of visits these are; without it, unknown."),
    ] = None,
    birth_year: Annotated[
        int | None,
        typer.Option("--birth-year", help="OMOP: year for patients of unknown age; without it, they are left out."),
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option("--vocabulary", help="OMOP: folder of an Athena download, to map codes by.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a COHORT as MEDS, OMOP, FHIR, CSV or HALO files that read back to the same cohort."""
    from adapcla.data import Cohort
    from adapcla.files import refuse_populated
    from adapcla.io.writers import ExportOptions, check_format, writable, write

    check_format(to)
    options = ExportOptions(split, visit_type, birth_year, vocabulary)
    refuse_populated(out, overwrite)
    patients = Cohort.open(cohort)
    write(patients, out, to, overwrite, options)
    held = writable(patients, to, options)
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    result = {
        "out": str(out),
        "to": to,
        "patients": held.n_patients,
        "patients left out": patients.n_patients - held.n_patients,
        "visits": held.n_visits,
        "files": files,
    }
    if as_json:
        emit(result)
        return
    typer.echo(f"{out}: {held.n_patients:,} patients, {held.n_visits:,} visits in {len(files)} files")
    say(f"reads back with: adapcla import {_READER.get(to, to)} {out} --out DIR")
