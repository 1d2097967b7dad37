"""`adapcla import`: somebody's tables become a cohort."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("import")(import_)


def import_(
    source: str = typer.Argument(help="mimic3, mimic4, eicu, omop, meds, fhir, table or halo."),
    path: Path = typer.Argument(help="Folder or file to read."),
    out: Path = typer.Option(..., "--out", help="Folder for the cohort."),
    patient: str | None = typer.Option(None, help="Column of patient ids (table)."),
    visit: str | None = typer.Option(None, help="Column of visit ids (table)."),
    codes: str | None = typer.Option(None, help="Column of codes, or several with commas or * (table)."),
    date: str | None = typer.Option(None, help="Column of visit dates (table)."),
    day: str | None = typer.Option(None, help="Column of days since the first visit (table)."),
    separator: str | None = typer.Option(None, help="What separates codes in a cell (table)."),
    domains: str = typer.Option("dx", help="Kinds of code: dx, px, rx, with commas."),
    level: str = typer.Option("full", help="full, category or ccs."),
    icd: str = typer.Option("apart", help="apart, map9 or map10."),
    attributes: str = typer.Option("", help="Columns that become static attributes, with commas (table)."),
    labels: str | None = typer.Option(None, help="phenotypes, auto, or a CSV with columns code and label."),
    system: str = typer.Option("", help="Name of the code system, where the data does not say it."),
    max_visits: int | None = typer.Option(None, help="Keep at most the first N visits of a patient."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace what is in the output folder."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Read patients from a SOURCE at PATH into a cohort folder."""
    from adapcla.files import refuse_populated
    from adapcla.sources import read

    # Refuse before the reading, not after.
    refuse_populated(out, overwrite)
    cohort = read(
        source,
        path,
        domains=_listed(domains),
        level=level,
        icd=icd,
        patient=patient,
        visit=visit,
        codes=codes,
        date=date,
        day=day,
        attributes=_listed(attributes),
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


def _listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas.

    >>> _listed("dx, px")
    ('dx', 'px')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _report(result: dict[str, Any], as_json: bool) -> None:
    """Say where the cohort is and what it holds."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    counts = ", ".join(f"{result[name]:,} {name}" for name in ("patients", "visits", "codes"))
    typer.echo(f"{result['out']}: {counts}")
    for reason, n in result["dropped"].items():
        typer.echo(f"  left out: {n:,} {reason}")
    say(f"next: adapcla describe {result['out']}")
