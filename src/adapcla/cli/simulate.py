"""`adapcla simulate`: patients of the planted world, as a cohort folder."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from adapcla import console
from adapcla.cli.options import AsJson, Out, Overwrite, Seed, emit


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(
    out: Out,
    patients: Annotated[int, typer.Option("--patients", help="Number of patients, up to 100 million.")] = 12_000,
    codes: Annotated[int, typer.Option("--codes", help="Number of codes, 40 to 100,000.")] = 3000,
    seed: Seed = 1,
    population: Annotated[
        Literal["base", "shifted", "deep"],
        typer.Option(
            "--population", help="As planted; with moved prevalences; with moved prevalences and another structure."
        ),
    ] = "base",
    tripwires: Annotated[
        int, typer.Option("--tripwires", help="Patients with a marked combination of codes, to search leaks with.")
    ] = 0,
    law_seed: Annotated[
        int, typer.Option("--law-seed", help="Seed of the law: another is another world on the same codes.")
    ] = 7,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Visits with kind, length, ending, drugs, a procedure and values, too."),
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate patients under a known law, long-tailed like hospital records; no patient is real."""
    from adapcla import files
    from adapcla.io import simulator as planted

    files.refuse_populated(out, overwrite)
    with console.meter("patients", patients) as bar:
        cohort = planted.simulate(
            patients, codes, seed, population, tripwires, law_seed, advance=bar.advance, whole=whole
        )
    cohort.save(out, overwrite=overwrite)
    if as_json:
        counts = {"patients": cohort.n_patients, "visits": cohort.n_visits, "codes": cohort.n_codes}
        emit({"out": str(out), **counts, "entries": cohort.n_entries, "population": population})
    else:
        console.say(
            f"{out}: {cohort.n_patients:,} made-up patients, {cohort.n_visits:,} visits, "
            f"{cohort.n_codes:,} codes; look at it with: adapcla describe {out}"
        )
