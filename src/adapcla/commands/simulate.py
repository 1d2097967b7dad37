"""`adapcla simulate`: patients of the planted world, as a cohort folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import typer

from adapcla import console


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(
    out: Path = typer.Option(..., "--out", help="Folder for the cohort."),
    patients: int = typer.Option(12_000, help="Number of patients, up to 100 million."),
    codes: int = typer.Option(3000, help="Number of codes, 40 to 100,000."),
    seed: int = typer.Option(1, help="Seed of the patients."),
    population: Literal["base", "shifted", "deep"] = typer.Option(
        "base", help="As planted; with moved prevalences; with moved prevalences and another structure."
    ),
    tripwires: int = typer.Option(0, help="Patients with a marked combination of codes, to search leaks with."),
    law_seed: int = typer.Option(7, "--law-seed", help="Seed of the law: another is another world on the same codes."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace what is in the folder."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Make up patients under a known law: long-tailed like hospital records, and nobody in them is real."""
    from adapcla import files
    from adapcla.sources import planted

    files.refuse_populated(out, overwrite)
    with console.meter("patients", patients) as bar:
        cohort = planted.simulate(
            patients, codes, seed, population, tripwires=tripwires, law_seed=law_seed, advance=bar.advance
        )
    cohort.save(out, overwrite=overwrite)
    if as_json:
        counts = {"patients": cohort.n_patients, "visits": cohort.n_visits, "codes": cohort.n_codes}
        typer.echo(json.dumps({"out": str(out), **counts, "entries": cohort.n_entries, "population": population}))
    else:
        console.say(
            f"{out}: {cohort.n_patients:,} made-up patients, {cohort.n_visits:,} visits, "
            f"{cohort.n_codes:,} codes; look at it with: adapcla describe {out}"
        )
