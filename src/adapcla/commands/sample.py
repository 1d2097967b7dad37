"""`adapcla sample`: new patients from a trained method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, emit, pairs
from adapcla.console import say

if TYPE_CHECKING:
    from adapcla.scaffold import Steering


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("sample")(sample)


def sample(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run or saved model.")],
    patients: Annotated[int, typer.Option("--patients", min=1, help="Number of patients.")],
    out: Out,
    seed: Seed = 1,
    toward: Annotated[Path | None, typer.Option("--toward", help="Prevalence file or cohort to steer towards.")] = None,
    strength: Annotated[float, typer.Option("--strength", help="0: no steering; 1: the full shift.")] = 1.0,
    missing: Annotated[str, typer.Option("--missing", help="Codes without a target: keep or drop.")] = "keep",
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Correct the shift by pilot samples.")] = False,
    codes_per_visit: Annotated[str, typer.Option("--codes-per-visit", help="natural, or match training.")] = "natural",
    temperature: Annotated[float, typer.Option("--temperature", help="Divides the logits.")] = 1.0,
    max_visits: Annotated[int | None, typer.Option("--max-visits", help="Most visits of a record.")] = None,
    min_codes: Annotated[int, typer.Option("--min-codes", help="Fewest codes of a visit.")] = 0,
    where: Annotated[list[str] | None, typer.Option("--where", help="ATTRIBUTE=CATEGORY, such as sex=F.")] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Training cohort; who breaks a rule that nobody there breaks is drawn again."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a sample that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write new patients to a cohort folder; patient i of a seed is always the same."""
    from adapcla.generators.generator import load
    from adapcla.generators.sampling import SampleRule, rules_for
    from adapcla.generators.shards import stream_sample
    from adapcla.records import Cohort

    generator = load(run)
    rule = SampleRule(
        temperature,
        codes_per_visit,
        max_visits,
        min_codes,
        pairs(where or [], "--where", "ATTRIBUTE=CATEGORY, such as sex=F"),
        None if rules is None else rules_for(generator.model, Cohort.open(rules)),
    )
    steering = generator.steering(toward, strength, missing, calibrate, seed)
    if steering is not None and steering.unknown:
        say(
            f"{len(steering.unknown)} codes of the target are unknown to the model: {', '.join(steering.unknown[:8])} …"
        )
    card = stream_sample(
        generator.model, patients, seed, out, steering=steering, rule=rule, resume=resume, overwrite=overwrite
    )
    result: dict[str, Any] = {"out": str(out), **{name: card[name] for name in ("patients", "visits", "codes")}}
    if "rules" in card:
        result["rules"] = card["rules"]
        say(f"{card['rules']['drawn again']:,} patients broke a rule and were drawn again")
    if steering is not None:
        result |= _steered(out, steering)
    if as_json:
        emit(result)
    else:
        say(f"{out}: {card['patients']:,} synthetic patients, {card['visits']:,} visits")


def _steered(out: Path, steering: Steering) -> dict[str, Any]:
    """How near the sample came to the requested prevalences."""
    from dataclasses import asdict

    from adapcla.records import Cohort
    from adapcla.scaffold.steering import achieved

    cohort = Cohort.open(out)
    came = achieved(steering.target, cohort.prevalence(), cohort.n_visits)
    if came.n_judged:
        say(
            f"{came.inside_sampling_error:.1%} of {came.n_judged} judged codes came out inside sampling error; "
            f"mean gap {came.mae:.2g}, of which sampling alone leaves {came.floor:.2g}"
        )
    else:
        say("no code of the target is frequent enough here to be judged")
    return {
        "achieved": asdict(came) if came.n_judged else None,
        "unknown_codes": len(steering.unknown),
        "unreachable_codes": len(steering.unreachable),
    }
