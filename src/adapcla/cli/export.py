"""`adapcla export`: a cohort in the formats of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from adapcla.cli.options import AsJson, CohortFolder, Out, Overwrite, emit
from adapcla.console import say

#: Formats that a source of another name reads back.
_READER = {"csv": "table", "parquet": "table"}


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("export")(export)


def export(
    cohort: CohortFolder,
    to: Annotated[str, typer.Option("--to", help="csv, parquet, xlsx, meds, omop or fhir.")],
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
    for_excel: Annotated[
        bool,
        typer.Option("--for-excel", help="CSV: an apostrophe before codes that a spreadsheet would change (0389)."),
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a COHORT as CSV, Parquet, Excel, MEDS, OMOP or FHIR."""
    from adapcla.data import Cohort
    from adapcla.files import refuse_populated
    from adapcla.io.writers import WriteOptions, check_format, writable, write

    check_format(to)
    options = WriteOptions(split, visit_type, birth_year, vocabulary, for_excel)
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
    if to != "xlsx":
        say(f"reads back with: adapcla import {_READER.get(to, to)} {out} --out DIR")
