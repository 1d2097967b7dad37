"""`adapcla import`: somebody's tables become a cohort."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, emit, listed
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("import")(import_)


def import_(
    source: Annotated[str, typer.Argument(help="mimic3, mimic4, eicu, omop, meds, fhir, table or halo.")],
    path: Annotated[Path, typer.Argument(help="Folder or file to read.")],
    out: Out,
    patient: Annotated[str | None, typer.Option("--patient", help="Column of patient ids (table).")] = None,
    visit: Annotated[str | None, typer.Option("--visit", help="Column of visit ids (table).")] = None,
    codes: Annotated[
        str | None, typer.Option("--codes", help="Column of codes, or several with commas or * (table).")
    ] = None,
    date: Annotated[str | None, typer.Option("--date", help="Column of visit dates (table).")] = None,
    day: Annotated[str | None, typer.Option("--day", help="Column of days since the first visit (table).")] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", help="What separates codes in a cell (table).")
    ] = None,
    domains: Annotated[str, typer.Option("--domains", help="Kinds of code: dx, px, rx, with commas.")] = "dx",
    level: Annotated[str, typer.Option("--level", help="Level of codes: full, category or ccs.")] = "full",
    icd: Annotated[str, typer.Option("--icd", help="ICD revisions: apart, map9 or map10.")] = "apart",
    attributes: Annotated[
        str, typer.Option("--attributes", help="Columns that become static attributes, with commas (table).")
    ] = "",
    labels: Annotated[
        str | None, typer.Option("--labels", help="phenotypes, auto, or a CSV with columns code and label.")
    ] = None,
    system: Annotated[
        str, typer.Option("--system", help="Name of the code system, where the data does not say it.")
    ] = "",
    max_visits: Annotated[
        int | None, typer.Option("--max-visits", help="Keep at most the first N visits of a patient.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read patients from a SOURCE at PATH into a cohort folder."""
    from adapcla.files import refuse_populated
    from adapcla.sources import read

    # Refuse before the reading, not after.
    refuse_populated(out, overwrite)
    cohort = read(
        source,
        path,
        domains=listed(domains),
        level=level,
        icd=icd,
        patient=patient,
        visit=visit,
        codes=codes,
        date=date,
        day=day,
        attributes=listed(attributes),
        separator=separator,
        system=system,
        labels=labels,
        max_visits=max_visits,
    )
    cohort.save(out, overwrite=overwrite)
    _report(
        {
            "out": str(out),
            "source": source,
            "patients": cohort.n_patients,
            "visits": cohort.n_visits,
            "codes": cohort.n_codes,
            "entries": cohort.n_entries,
            "attributes": sorted(cohort.attributes),
            "labels": len(cohort.label_names),
            "dropped": cohort.card.get("dropped", {}),
        },
        as_json,
    )


def _report(result: dict[str, Any], as_json: bool) -> None:
    """Say where the cohort is and what it holds."""
    if as_json:
        emit(result)
        return
    counts = ", ".join(f"{result[name]:,} {name}" for name in ("patients", "visits", "codes"))
    typer.echo(f"{result['out']}: {counts}")
    for reason, n in result["dropped"].items():
        typer.echo(f"  left out: {n:,} {reason}")
    say(f"next: adapcla describe {result['out']}")
