"""`adapcla compare`: methods beside each other, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.commands.options import AsJson, assignments, emit
from adapcla.console import say
from adapcla.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare)


def compare(
    cohort: Annotated[Path, typer.Argument(help="Cohort folder; it is split once for all rows.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the comparison; what is there is not done again.")],
    methods: Annotated[str, typer.Option("--methods", help="Names with commas, or all.")] = "all",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds of fit and sample, with commas.")] = "1",
    external: Annotated[
        list[str] | None, typer.Option("--external", help="NAME=PATH of a synthetic cohort made elsewhere.")
    ] = None,
    passes: Annotated[float | None, typer.Option("--passes", help="Passes over the training patients.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of any other setting.")] = None,
    suites: Annotated[str, typer.Option("--suites", help="tail, fidelity, utility, … with commas.")] = "tail,fidelity",
    patients: Annotated[int, typer.Option("--patients", min=0, help="Patients a sample; 0: as many as test.")] = 0,
    split_seed: Annotated[int, typer.Option("--split-seed", help="Seed of the patient split.")] = 4,
    control: Annotated[float, typer.Option("--control", help="Share of patients kept for privacy tests.")] = 0.0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws and smaller judges: a look only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train, sample and score whatever is missing, beside real patients, copies and chance, and write one table."""
    from pydantic import ValidationError

    from adapcla.experiment import compare as comparison
    from adapcla.experiment.spec import EvaluateSpec, SplitSpec

    changes = assignments(setting or [])
    if passes is not None:
        changes["passes"] = passes
    try:
        judged = EvaluateSpec(suites=tuple(listed(suites)), quick=quick)
        split = SplitSpec(seed=split_seed, control=control)
    except ValidationError as error:
        raise UsageError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    names = comparison.chosen_methods(methods)
    asked = comparison.Asked(
        cohort, out, names, whole_numbers(seeds), changes, outside(external or []), judged, patients, split
    )
    lines = comparison.compare(asked)
    if as_json:
        rows = [{"method": line.method, "seed": line.seed, **line.values, **line.costs} for line in lines]
        emit({"out": str(out), "rows": rows})
    else:
        say(f"{out / comparison.MARKDOWN}: {len(lines)} rows")


def listed(text: str) -> list[str]:
    """The parts of a list with commas.

    >>> listed("tail, fidelity")
    ['tail', 'fidelity']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_numbers(text: str) -> tuple[int, ...]:
    """Seeds from text.

    >>> whole_numbers("1,2,3")
    (1, 2, 3)
    """
    try:
        found = tuple(dict.fromkeys(int(part) for part in listed(text)))
    except ValueError:
        raise UsageError(f"--seeds {text}: expected whole numbers with commas") from None
    if not found:
        raise UsageError("--seeds: expected at least one")
    return found


def outside(items: list[str]) -> dict[str, Path]:
    """Names and folders of cohorts that were made elsewhere.

    >>> outside(["theirs=out/theirs"])
    {'theirs': PosixPath('out/theirs')}
    """
    pairs = [item.partition("=") for item in items]
    if any(not (name and equals and path) for name, equals, path in pairs):
        raise UsageError("--external: expected NAME=PATH")
    return {name: Path(path) for name, _, path in pairs}
