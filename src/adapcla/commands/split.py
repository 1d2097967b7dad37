"""`adapcla split`: the parts of a cohort as folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, emit
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("split")(split)


def split(
    cohort: Annotated[Path, typer.Argument(help="Cohort folder.")],
    out: Out,
    seed: Seed = 4,
    control: Annotated[float, typer.Option("--control", help="Share of patients reserved for privacy tests.")] = 0.0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write train, valid and test parts by patient: the very parts that `train` uses with the same seed."""
    from adapcla import files
    from adapcla.records import Cohort

    files.refuse_populated(out, overwrite)
    whole = Cohort.open(cohort)
    parts = whole.split(seed=seed, control=control) if control else whole.split(seed=seed)
    for name, part in parts._asdict().items():
        part.save(out / name, overwrite=overwrite)
    counts = {name: part.n_patients for name, part in parts._asdict().items()}
    if as_json:
        emit({"out": str(out), **counts})
    else:
        say(f"{out}: " + ", ".join(f"{name} {n:,}" for name, n in counts.items()))
