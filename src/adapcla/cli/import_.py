"""`adapcla import`: somebody's tables become a cohort."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla.cli import reading
from adapcla.cli.options import AllowDropped, AsJson, Out, Overwrite, emit
from adapcla.console import say
from adapcla.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("import")(import_)


def import_(
    source: Annotated[str, typer.Argument(help="table, mimic3, mimic4, eicu, omop, meds, fhir or synthea.")],
    path: Annotated[Path, typer.Argument(help="Folder or file to read.")],
    out: Out,
    patient: reading.Patient = None,
    visit: reading.Visit = None,
    codes: reading.Codes = None,
    date: reading.Date = None,
    day: reading.Day = None,
    separator: reading.Separator = None,
    domains: reading.Domains = "dx",
    level: reading.Level = "full",
    icd: reading.Icd = "apart",
    attributes: reading.Attributes = "",
    labels: reading.Labels = None,
    system: reading.System = "",
    max_visits: reading.MaxVisits = None,
    labs: reading.Labs = "200",
    lab_values: reading.LabValues = "last",
    value: reading.Value = None,
    unit: reading.Unit = None,
    time: reading.Time = None,
    kind: reading.Kind = None,
    length: reading.Length = None,
    ending: reading.Ending = None,
    encoding: reading.Encoding = None,
    date_order: reading.DateOrder = None,
    decimal: reading.Decimal = None,
    sheet: reading.Sheet = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what the columns are taken for and what is left out, and end.")
    ] = False,
    allow_dropped: AllowDropped = 0.01,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read patients from a SOURCE at PATH into a cohort folder."""
    options = reading.asked(locals())
    from adapcla.files import refuse_populated
    from adapcla.io import read
    from adapcla.io.losses import ALLOWED, require_kept
    from adapcla.io.preview import preview

    if dry_run:
        _show(preview(source, path, allow_dropped, **options).content(), as_json)
        return
    # Refuse before the reading, not after.
    refuse_populated(out, overwrite)
    cohort = read(source, path, **options)
    require_kept(cohort, allow_dropped, path)
    # Whoever goes on from here has been asked already.
    cohort = replace(cohort, card={**cohort.card, ALLOWED: allow_dropped})
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


def _show(found: dict[str, Any], as_json: bool) -> None:
    """Say what a first look found."""
    if as_json:
        emit(found)
        return
    for number, column in enumerate(found.get("columns", ()), 1):
        name = column["name"] or f"column {number}"
        typer.echo(f"{name}: {column['kind']}" + (f" → {column['part']}" if column["part"] else ""))
    for table in found.get("tables", ()):
        typer.echo(f"{table['name']}: {table['bytes']:,} bytes")
    for row in found.get("rows", ()):
        typer.echo("  " + " | ".join(row))
    for what, how in found.get("taken_for", {}).items():
        typer.echo(f"{what}: {how}")
    if found.get("systems"):
        typer.echo("code systems: " + ", ".join(f"{name} {n:,}" for name, n in found["systems"].items()))
    if found.get("seconds"):
        typer.echo(f"reading all of it takes about {found['seconds']:,.0f} s here")
    if not found.get("header", True):
        typer.echo("the first line does not look like a header: its names are not shown")
    if found["problem"]:
        raise InputError(found["problem"])
    if found["tried"] is None:
        typer.echo("too large to be tried: what is left out is counted while it is read")
    else:
        _report_trial(found)


def _report_trial(found: dict[str, Any]) -> None:
    """Say what the part that was tried comes to."""
    part = "all of it" if found["tried"] == "all" else f"the first {found['tried']:,} rows"
    counts = ", ".join(f"{found[name]:,} {name}" for name in ("patients", "visits", "codes"))
    typer.echo(f"tried {part}: {counts}")
    for reason, n in found["dropped"].items():
        typer.echo(f"  would be left out: {n:,} {reason}")


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
