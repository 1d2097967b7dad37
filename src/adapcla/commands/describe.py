"""`adapcla describe`: a cohort in numbers, and a figure of its long tail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla import console
from adapcla.commands.options import AsJson, CohortFolder, Seed, emit
from adapcla.disclosure import SMALLEST_COUNT

_FORMATS = (".png", ".svg")
#: Categories of an attribute that the table shows; `--json` has them all.
_MOST_CATEGORIES = 10
_TOO_FEW = f"fewer than {SMALLEST_COUNT} patients have them"


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
    from adapcla.errors import UsageError
    from adapcla.records import Cohort
    from adapcla.records.description import describe as description_of

    if figure is not None and figure.suffix.lower() not in _FORMATS:
        raise UsageError(f"--figure {figure}\nexpected: a file ending in {' or '.join(_FORMATS)}")
    patients = Cohort.open(cohort)
    description = description_of(patients, seed)
    if figure is not None:
        from adapcla.report import style
        from adapcla.report.figures.longtail import longtail

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

    screen = Console(highlight=False)
    # Headings are lines of their own: a title of a narrow table would be broken to its width.
    screen.print(Text(f"{folder.name} ({description['source']})", style="italic"))
    plain = Table(show_header=False, box=None)
    plain.add_column(style="bold")
    plain.add_column()
    for name, value in _lines(description):
        plain.add_row(name, value)
    screen.print(plain)
    screen.print(Text("\nHow the codes are used", style="italic"))
    parts = Table(box=None, header_style="bold")
    parts.add_column("stratum")
    for heading in ("codes", "% of codes", "% of entries", "visits per code"):
        parts.add_column(heading, justify="right")
    for name, part in _parts(description):
        parts.add_row(
            name,
            f"{part['codes']:,}",
            _percent(part["share_of_codes"]),
            _percent(part["share_of_entries"]),
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


def _lines(description: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of the first table."""
    tail, overlap = description["long_tail"], description["overlap"]
    yield "patients", f"{description['patients']:,}"
    yield "visits", f"{description['visits']:,}"
    yield "codes", f"{description['codes']:,}" + (f", {tail['absent']:,} of them in no visit" if tail["absent"] else "")
    visits = description["visits_per_patient"]
    yield "visits per patient", f"{_spread(visits)}; {_percent(visits['one_visit'])} have one"
    yield "codes per visit", _spread(description["codes_per_visit"])
    yield (
        "long tail",
        f"half of all entries are of {tail['codes_with_half_of_entries']:,} codes; "
        f"{_percent(tail['rare'])} of the codes have fewer than {tail['rare_below']} visits",
    )
    if overlap["pairs"]:
        others = "–" if overlap["random_visit"] is None else f"{overlap['random_visit']:.3f}"
        yield "next-visit overlap", f"{overlap['next_visit']:.3f} (somebody else's visit: {others}; Jaccard)"
    else:
        yield "next-visit overlap", f"not known: {overlap['reason']}"
    if description["days"] is not None and description["days"]["between_visits"]["median"] is not None:
        yield "days between visits", f"median {description['days']['between_visits']['median']:,.0f}"
    for name, domain in description["domains"].items():
        yield f"domain {name}", f"{domain['codes']:,} codes, {_percent(domain['share_of_entries'])} of entries"
    groups = description.get("groups", {})
    for name, choices in list(groups.items())[:_MOST_CATEGORIES]:
        shares = ", ".join(f"{token} {_percent(share)}" for token, share in choices.items())
        yield f"choice {name}", shares or _TOO_FEW
    if len(groups) > _MOST_CATEGORIES:
        yield "more choices", f"{len(groups) - _MOST_CATEGORIES}; --json has them all"
    if numbers := description.get("numbers"):
        few = numbers["of too few patients"]
        yield "numbers", f"{numbers['codes']:,}" + (f"; of {few:,} {_TOO_FEW}" if few else "")
        told = sorted(numbers["told"].items(), key=lambda item: (-item[1]["visits"], item[0]))
        for token, number in told[:_MOST_CATEGORIES]:
            low, middle, high = number["quartiles"]
            spread = f"median {middle:g} {number['unit']} (quartiles {low:g} to {high:g})"
            yield token, f"{number['visits']:,} visits, {spread}"
    for name, categories in description["attributes"].items():
        shown = list(categories.items())[:_MOST_CATEGORIES]
        more = f", {len(categories) - len(shown)} more" if len(categories) > len(shown) else ""
        yield name, ", ".join(f"{category} {n:,}" for category, n in shown) + more
    if description["labels"]:
        yield "labels", f"{len(description['labels'])}"
    if not description["dropped"]:
        yield "dropped", "nothing"


def _parts(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the second table; the band of one visit is there already, as the singletons."""
    yield from description["strata"].items()
    yield from ((f"in {band} visits", part) for band, part in description["bands"].items() if band != "1")


def _spread(values: dict[str, Any]) -> str:
    """Mean, median and maximum as text."""
    if values["mean"] is None:
        return "none"
    return f"mean {values['mean']:.2f}, median {values['median']:g}, most {values['max']:,}"


def _percent(share: float | None) -> str:
    """A share as text."""
    return "–" if share is None else f"{100 * share:.1f} %"
