"""`adapcla split`: the parts of a cohort as folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, Control, Out, Overwrite, emit
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("split")(split)


def split(
    cohort: Annotated[Path, typer.Argument(help="Cohort folder.")],
    out: Out,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the patient split; 4 if left out.")] = None,
    control: Control = 0.0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Divide patients into train, valid, test and control; `train` takes the folder that holds these parts."""
    from adapcla.data import Cohort
    from adapcla.data.split import SPLIT_SEED
    from adapcla.data.split_folder import save_splits, split_cohort
    from adapcla.files import refuse_populated

    refuse_populated(out, overwrite)
    parts = split_cohort(Cohort.open(cohort), SPLIT_SEED if seed is None else seed, control)
    save_splits(parts, out, overwrite)
    counts = {name: part.n_patients for name, part in parts.items()}
    if as_json:
        emit({"out": str(out), **counts})
    else:
        say(f"{out}: " + ", ".join(f"{name} {n:,}" for name, n in counts.items()))
