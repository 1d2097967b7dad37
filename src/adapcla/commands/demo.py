"""`adapcla demo`: the demonstration experiment, without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the demonstration.")] = Path("demo"),
) -> None:
    """Train, sample, steer, judge and show three methods on a small made-up world; ends with a page."""
    from importlib.resources import as_file, files

    from adapcla.experiment.plan import Plan
    from adapcla.experiment.spec import read_spec

    with as_file(files("adapcla.experiment") / "demo.toml") as path:
        plan = Plan(read_spec(path), out)
    typer.echo(str(plan.run()))
