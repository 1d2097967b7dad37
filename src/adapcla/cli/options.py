"""Options that several verbs share, spelled once."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla.errors import UsageError

Out = Annotated[Path, typer.Option("--out", help="Folder to write; refused if it holds something.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", help="A line of the privacy gate that may stay not shown, with --reason."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why these lines are accepted; it stands on page and card.")]
Population = Annotated[
    int, typer.Option("--population", min=0, help="People among whom an attacker looks for the training patients.")
]
AllowDropped = Annotated[
    float,
    typer.Option("--allow-dropped", min=0, max=1, help="Share of visits, codes or patients that may be dropped."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Cluster = Annotated[
    str, typer.Option("--cluster", help="Where tasks run: local, auto (RAY_ADDRESS, else all cores), ray://host:port.")
]
Seed = Annotated[int, typer.Option("--seed", envvar="ADAPCLA_SEED", help="Seed.")]
CohortFolder = Annotated[Path, typer.Argument(metavar="COHORT", help="Cohort folder.")]
Control = Annotated[float, typer.Option("--control", help="Share of patients reserved for privacy tests.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer draws, smaller classifiers: a quick look.")]

Having = Annotated[
    list[str] | None, typer.Option("--having", help="Code that all patients have; A|B: any of them; E84*: a family.")
]
Without = Annotated[list[str] | None, typer.Option("--without", help="Code that no patient has; as --having.")]
Where = Annotated[list[str] | None, typer.Option("--where", help="ATTRIBUTE=CATEGORY, such as sex=F.")]
Visits = Annotated[str | None, typer.Option("--visits", help="Numbers of visits, such as 3.. or 2..5.")]
At = Annotated[str, typer.Option("--at", help="Visit that holds the asked codes: any, first or last.")]
Within = Annotated[int | None, typer.Option("--within", help="First visits that hold the asked codes.")]


def emit(content: dict[str, Any]) -> None:
    """Print one JSON object as the last line of stdout; of several processes that a launcher started, one prints."""
    if os.environ.get("RANK", "0") != "0":
        return
    sys.stdout.write(json.dumps(content, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Numpy scalars and paths as JSON knows them."""
    return value.item() if hasattr(value, "item") else str(value)


def assignments(items: list[str]) -> dict[str, Any]:
    """`name=value` options as a dictionary, values read as JSON where they can be.

    >>> assignments(["width=64", "schedule=fast"])
    {'width': 64, 'schedule': 'fast'}
    """
    out: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {item}: expected NAME=VALUE")
        try:
            out[name.strip()] = json.loads(text)
        except ValueError:
            out[name.strip()] = text
    return out


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas.

    >>> listed("tail, fidelity")
    ('tail', 'fidelity')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Different whole numbers above 0 with commas between them.

    >>> whole_numbers("1,2,2", "--seeds")
    (1, 2)
    """
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in listed(text)))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise UsageError(f"{option} {text}: expected whole numbers above 0 with commas between them")
    return numbers


def attributes_of(where: list[str] | None) -> tuple[tuple[str, str], ...]:
    """The attributes that `--where` asks for.

    >>> attributes_of(["sex=F"]), attributes_of(None)
    ((('sex', 'F'),), ())
    """
    return pairs(where or [], "--where", "ATTRIBUTE=CATEGORY, such as sex=F")


def pairs(items: list[str], option: str, expected: str) -> tuple[tuple[str, str], ...]:
    """Names and values with an equals sign between them.

    >>> pairs(["sex=F"], "--where", "ATTRIBUTE=CATEGORY")
    (('sex', 'F'),)
    """
    parted = [item.partition("=") for item in items]
    if any(not (name and equals and value) for name, equals, value in parted):
        raise UsageError(f"{option}: expected {expected}")
    return tuple((name, value) for name, _, value in parted)
