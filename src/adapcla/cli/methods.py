"""`adapcla methods`: the rows of the method table."""

from __future__ import annotations

from typing import Any

import typer

from adapcla.cli.options import AsJson, emit


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("methods")(methods)


def methods(as_json: AsJson = False) -> None:
    """List the methods: what each is, where it comes from, what it starts from, how large it is, what it can do."""
    from adapcla.generation.generator import described
    from adapcla.training.settings import METHODS

    rows = [described(name) for name in METHODS]
    if as_json:
        emit({"methods": rows})
        return
    for row in rows:
        typer.echo("\n".join(_lines(row)))


def _lines(row: dict[str, Any]) -> list[str]:
    """A row for people."""
    size = row["parameters"]
    lines = [
        f"{row['name']}  [{row['paper']}]",
        f"  {row['summary']}",
        f"  starts from {row['starts_from']}; {size:,} parameters at {row['codes']:,} codes; {row['passes']:g} passes"
        if size
        else f"  starts from {row['starts_from']}; nothing is trained",
        f"  supports: {', '.join(row['supports']) or 'sampling only'}",
    ]
    return lines + ([f"  note: {row['note']}"] if row["note"] else [])
