"""`adapcla sample`: new patients from a trained method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, emit, pairs, part_of
from adapcla.console import say
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from adapcla.generators.model import Model
    from adapcla.generators.sampling import SampleRule
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
    shard: Annotated[
        str | None, typer.Option("--shard", help="I/N: write the I-th of N shares beside OUT, for --assemble.")
    ] = None,
    assembled: Annotated[bool, typer.Option("--assemble", help="Make OUT of the shares of all --shard jobs.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a sample that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write new patients to a cohort folder; patient i of a seed is always the same."""
    from adapcla.generators.generator import load
    from adapcla.generators.sampling import SampleRule
    from adapcla.generators.shards import assemble, stream_sample

    part = _part(shard, assembled, resume, overwrite)
    generator = load(run)
    rule = SampleRule(
        temperature,
        codes_per_visit,
        max_visits,
        min_codes,
        pairs(where or [], "--where", "ATTRIBUTE=CATEGORY, such as sex=F"),
    )
    steering = generator.steering(toward, strength, missing, calibrate, seed)
    if steering is not None and steering.unknown:
        say(
            f"{len(steering.unknown)} codes of the target are unknown to the model: {', '.join(steering.unknown[:8])} …"
        )
    if part is not None:
        _write_share(generator.model, patients, seed, out, part, steering, rule, as_json)
        return
    asked = (generator.model, patients, seed, out)
    if assembled:
        card = assemble(*asked, steering=steering, rule=rule, overwrite=overwrite)
    else:
        card = stream_sample(*asked, steering=steering, rule=rule, resume=resume, overwrite=overwrite)
    result: dict[str, Any] = {"out": str(out), **{name: card[name] for name in ("patients", "visits", "codes")}}
    if steering is not None:
        result |= _steered(out, steering)
    if as_json:
        emit(result)
    else:
        say(f"{out}: {card['patients']:,} synthetic patients, {card['visits']:,} visits")


def _part(shard: str | None, assembled: bool, resume: bool, overwrite: bool) -> tuple[int, int] | None:
    """Which share of how many this job writes; None where it writes a cohort."""
    if (assembled and resume) or (shard is not None and (assembled or resume or overwrite)):
        raise UsageError(
            "--shard and --assemble: shares that are there are always kept, and only --assemble writes OUT\n"
            "to do: --shard I/N alone in each job, then --assemble, with --overwrite if OUT may be replaced"
        )
    return None if shard is None else part_of(shard, "--shard")


def _write_share(
    model: Model,
    patients: int,
    seed: int,
    out: Path,
    part: tuple[int, int],
    steering: Steering | None,
    rule: SampleRule,
    as_json: bool,
) -> None:
    """Write the share of one job and say how large it is."""
    from adapcla.generators.shards import shards_beside, write_share
    from adapcla.training.processes import Processes

    n = write_share(model, patients, seed, out, Processes(*part), steering=steering, rule=rule)
    if as_json:
        emit({"shards": str(shards_beside(out)), "share": part[0] + 1, "of": part[1], "patients": n})
    else:
        few = "" if n else "; so few patients have fewer shards than jobs"
        say(f"{shards_beside(out)}: share {part[0] + 1} of {part[1]}, {n:,} of {patients:,} patients{few}")


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
