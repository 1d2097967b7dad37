"""`adapcla describe`: a cohort in numbers, and a figure of its long tail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla import console
from adapcla.cli.options import AsJson, CohortFolder, Seed, emit

_FORMATS = (".png", ".svg")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("describe")(describe)


def describe(
    cohort: CohortFolder,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the long tail into this file, .png or .svg.")
    ] = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Describe a cohort: its size, its long tail, how alike visits are, and what was dropped while reading."""
    from adapcla.data import Cohort
    from adapcla.data.description import describe as description_of
    from adapcla.errors import UsageError

    if figure is not None and figure.suffix.lower() not in _FORMATS:
        raise UsageError(f"--figure {figure}\nexpected: a file ending in {' or '.join(_FORMATS)}")
    patients = Cohort.open(cohort)
    description = description_of(patients, seed)
    if figure is not None:
        from adapcla.report import style
        from adapcla.report.figures.cohorts import longtail

        style.save(longtail(patients), figure)
        console.say(f"figure: {figure}")
    if as_json:
        emit(description)
    else:
        _show(cohort, description)


def _show(folder: Path, description: dict[str, Any]) -> None:
    """Print the description as tables for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from adapcla.data import description as words

    screen = Console(highlight=False)
    # Headings are lines of their own: a title of a narrow table would be broken to its width.
    screen.print(Text(f"{folder.name} ({description['source']})", style="italic"))
    plain = Table(show_header=False, box=None)
    plain.add_column(style="bold")
    plain.add_column()
    for name, value in words.lines(description):
        plain.add_row(name, value)
    screen.print(plain)
    screen.print(Text("\nHow the codes are used", style="italic"))
    parts = Table(box=None, header_style="bold")
    parts.add_column("stratum")
    for heading in ("codes", "% of codes", "% of entries", "visits per code"):
        parts.add_column(heading, justify="right")
    for name, part in words.parts(description):
        parts.add_row(
            name,
            f"{part['codes']:,}",
            words.percent(part["share_of_codes"]),
            words.percent(part["share_of_entries"]),
            "–" if part["lowest"] is None else f"{part['lowest']:,} to {part['highest']:,}",
        )
    screen.print(parts)
    if description["dropped"]:
        screen.print(Text("\nDropped while reading", style="italic"))
        dropped = Table(show_header=False, box=None)
        dropped.add_column(style="bold")
        dropped.add_column(justify="right")
        for reason, n in sorted(description["dropped"].items()):
            dropped.add_row(str(reason), f"{n:,}" if isinstance(n, int) else str(n))
        screen.print(dropped)
