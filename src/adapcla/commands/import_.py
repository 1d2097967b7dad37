"""`adapcla import`: somebody's tables become a cohort."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla.commands import reading
from adapcla.commands.options import AsJson, Out, Overwrite, emit
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("import")(import_)


def import_(
    source: Annotated[str, typer.Argument(help="mimic3, mimic4, eicu, omop, meds, fhir, table, diabetes130 or halo.")],
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
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read patients from a SOURCE at PATH into a cohort folder."""
    options = reading.asked(locals())
    from adapcla.files import refuse_populated
    from adapcla.sources import read

    # Refuse before the reading, not after.
    refuse_populated(out, overwrite)
    cohort = read(source, path, **options)
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
