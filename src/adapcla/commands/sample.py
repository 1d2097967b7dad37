"""`adapcla sample`: new patients from a trained method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, emit
from adapcla.console import say
from adapcla.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("sample")(sample)


def sample(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run or saved model.")],
    patients: Annotated[int, typer.Option("--patients", min=1, help="Number of patients.")],
    out: Out,
    seed: Seed = 1,
    toward: Annotated[Path | None, typer.Option("--toward", help="Prevalence file or cohort to steer towards.")] = None,
    strength: Annotated[float, typer.Option("--strength", help="0 no control, 1 the full shift.")] = 1.0,
    missing: Annotated[str, typer.Option("--missing", help="Codes without a target: keep or drop.")] = "keep",
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Close the loop until the target is met.")] = False,
    codes_per_visit: Annotated[str, typer.Option("--codes-per-visit", help="natural or match.")] = "natural",
    temperature: Annotated[float, typer.Option("--temperature", help="Divides the logits.")] = 1.0,
    max_visits: Annotated[int | None, typer.Option("--max-visits", help="Longest record.")] = None,
    min_codes: Annotated[int, typer.Option("--min-codes", help="Draw smaller visits again.")] = 0,
    where: Annotated[list[str] | None, typer.Option("--where", help="ATTRIBUTE=CATEGORY, such as sex=F.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a sample that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write new patients to a cohort folder; patient i of a seed is always the same."""
    from adapcla.generators.generator import load
    from adapcla.generators.sampling import SampleRule
    from adapcla.generators.shards import stream_sample

    generator = load(run)
    rule = SampleRule(temperature, codes_per_visit, max_visits, min_codes, conditions(where or []))
    steering = generator.steering(toward, strength, missing, calibrate, seed)
    if steering is not None and steering.unknown:
        say(
            f"{len(steering.unknown)} codes of the target are unknown to the model: {', '.join(steering.unknown[:8])} …"
        )
    card = stream_sample(
        generator.model, patients, seed, out, steering=steering, rule=rule, resume=resume, overwrite=overwrite
    )
    counts = {name: card[name] for name in ("patients", "visits", "codes")}
    if as_json:
        emit({"out": str(out), **counts})
    else:
        say(f"{out}: {card['patients']:,} synthetic patients, {card['visits']:,} visits")


def conditions(items: list[str]) -> tuple[tuple[str, str], ...]:
    """`name=category` pairs.

    >>> conditions(["sex=F"])
    (('sex', 'F'),)
    """
    pairs = [item.partition("=") for item in items]
    if any(not equals or not name for name, equals, _ in pairs):
        raise UsageError("--where: expected ATTRIBUTE=CATEGORY, such as sex=F")
    return tuple((name, category) for name, _, category in pairs)
