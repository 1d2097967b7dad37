"""`adapcla export`: a cohort in somebody else's format."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from adapcla.commands.options import AsJson, CohortFolder, Out, Overwrite, emit
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
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a COHORT as MEDS, OMOP, FHIR, CSV or HALO files that read back to the same cohort."""
    from adapcla.files import refuse_populated
    from adapcla.records import Cohort
    from adapcla.sources.export import ExportOptions, check_format, write

    check_format(to)
    refuse_populated(out, overwrite)
    patients = Cohort.open(cohort)
    write(patients, out, to, overwrite, ExportOptions(split))
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    result = {"out": str(out), "to": to, "patients": patients.n_patients, "visits": patients.n_visits, "files": files}
    if as_json:
        emit(result)
        return
    typer.echo(f"{out}: {patients.n_patients:,} patients, {patients.n_visits:,} visits in {len(files)} files")
    say(f"reads back with: adapcla import {_READER.get(to, to)} {out} --out DIR")
