"""`adapcla sample`: new patients from a trained method."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.cli.options import (
    AsJson,
    At,
    Cluster,
    Having,
    Out,
    Overwrite,
    Seed,
    Visits,
    Where,
    Within,
    Without,
    attributes_of,
    emit,
)
from adapcla.console import say
from adapcla.engine import cluster
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from adapcla.data.criteria import Criteria
    from adapcla.generation.generator import Generator
    from adapcla.generation.sampler import SampleRule
    from adapcla.scaffold import Steering


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("sample")(sample)


def sample(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run or saved model.")],
    out: Out,
    patients: Annotated[int | None, typer.Option("--patients", min=1, help="Number of patients.")] = None,
    seed: Seed = 1,
    toward: Annotated[Path | None, typer.Option("--toward", help="Prevalence file or cohort to steer towards.")] = None,
    strength: Annotated[float, typer.Option("--strength", help="0: no steering; 1: the full shift.")] = 1.0,
    missing: Annotated[str, typer.Option("--missing", help="Codes without a target: keep or drop.")] = "keep",
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Correct the shift by pilot samples.")] = False,
    pilot: Annotated[
        int | None, typer.Option("--pilot", min=100, help="With --calibrate: patients of a pilot; 20,000 if left out.")
    ] = None,
    codes_per_visit: Annotated[str, typer.Option("--codes-per-visit", help="natural, or match training.")] = "natural",
    temperature: Annotated[float, typer.Option("--temperature", help="Divides the logits.")] = 1.0,
    max_visits: Annotated[int | None, typer.Option("--max-visits", help="Most visits of a record.")] = None,
    min_codes: Annotated[int, typer.Option("--min-codes", help="Fewest codes of a visit.")] = 0,
    where: Where = None,
    having: Having = None,
    without: Without = None,
    visits: Visits = None,
    at: At = "any",
    within: Within = None,
    train: Annotated[
        Path | None, typer.Option("--train", help="Training cohort: refuses what none of its patients fulfils.")
    ] = None,
    histories: Annotated[
        Path | None, typer.Option("--continue", help="Table or cohort of histories that are gone on with.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="With --continue: continuations of each history.")] = 20,
    likeliest: Annotated[
        int, typer.Option("--likeliest", min=0, help="With --continue: tell the N likeliest codes of the next visit.")
    ] = 0,
    where_run: Cluster = "local",
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Training cohort; who breaks a rule that nobody there breaks is drawn again."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a sample that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write new patients to a cohort folder; patient i of a seed is always the same."""
    from adapcla.data import Cohort
    from adapcla.data.criteria import Criteria
    from adapcla.generation.generator import load
    from adapcla.generation.sample_folder import stream_sample
    from adapcla.generation.sampler import SampleRule, rules_for

    generator = load(run)
    attributes = attributes_of(where)
    steering = generator.steering(toward, strength, missing, calibrate, seed, pilot)
    if steering is not None and steering.unknown:
        say(
            f"{len(steering.unknown)} codes of the target are unknown to the model: {', '.join(steering.unknown[:8])} …"
        )
    condition = None
    if having or without or visits or at != "any" or (within is not None and histories is None):
        condition = Criteria.of(having or (), without or (), attributes, visits, at, within)
    kept = None if rules is None else rules_for(generator.model, Cohort.open(rules))
    rule = SampleRule(temperature, codes_per_visit, max_visits, min_codes, () if condition else attributes, kept)
    if patients is None and histories is None:
        raise UsageError("expected --patients N, or --continue HISTORIES")
    if histories is not None:
        asked = (condition, within or 1, draws, seed, likeliest)
        card = _continued(generator, histories, asked, out, overwrite, steering)
    elif condition is not None:
        card = _on_demand(generator, patients or 0, seed, condition, steering, rule, train, out, resume, overwrite)
    else:
        with cluster(where_run):
            card = stream_sample(
                generator.model,
                patients or 0,
                seed,
                out,
                steering=steering,
                rule=rule,
                resume=resume,
                overwrite=overwrite,
            )
    result: dict[str, Any] = {"out": str(out), **{name: card[name] for name in ("patients", "visits", "codes")}}
    if "rules" in card:
        result["rules"] = card["rules"]
        say(f"{card['rules']['drawn again']:,} patients broke a rule and were drawn again")
    result |= {name: card[name] for name in ("condition", "effort", "likeliest") if name in card}
    if steering is not None and condition is None and histories is None:
        result |= _steered(out, generator, steering)
    if as_json:
        emit(result)
    else:
        say(f"{out}: {card['patients']:,} synthetic patients, {card['visits']:,} visits")


def _on_demand(
    generator: Generator,
    patients: int,
    seed: int,
    condition: Criteria,
    steering: Steering | None,
    rule: SampleRule,
    train: Path | None,
    out: Path,
    resume: bool,
    overwrite: bool,
) -> dict[str, Any]:
    """Patients who fulfil a condition, written as a cohort; its card."""
    from adapcla.data import Cohort, storage
    from adapcla.files import read_json, refuse_populated
    from adapcla.generation.conditional import sample_given

    if resume:
        raise UsageError("--resume: patients of a condition are found in one go\nto do: leave it out, or --overwrite")
    refuse_populated(out, overwrite)
    known = None if train is None else Cohort.open(train)
    cohort = sample_given(generator.model, patients, seed, condition, steering, rule, known)
    cohort.save(out, overwrite)
    return read_json(out / storage.CARD)


def _continued(
    generator: Generator,
    histories: Path,
    asked: tuple[Criteria | None, int, int, int, int],
    out: Path,
    overwrite: bool,
    steering: Steering | None,
) -> dict[str, Any]:
    """Continuations of histories, `draws` of each in their order, written as a cohort of the new visits; its card."""
    from adapcla.data import Cohort, storage
    from adapcla.files import read_json, refuse_populated
    from adapcla.generation.continuation import as_known, likeliest
    from adapcla.io import read

    condition, visits, draws, seed, n_likeliest = asked
    refuse_populated(out, overwrite)
    given = Cohort.open(histories) if histories.is_dir() else read("table", histories)
    known = as_known(generator.model, given)
    if condition is not None:
        condition = replace(condition, within=visits)
        found = generator.continue_given(known, condition, draws, seed, steering)
    else:
        found = generator.continue_(known, visits, draws, seed, steering)
    drawn = found.drawn
    replace(drawn, card={**drawn.card, "draws": draws, "histories": known.n_patients}).save(out, overwrite)
    told = likeliest(found, n_likeliest)
    for number, codes in enumerate(told if n_likeliest else (), 1):
        for code in codes:
            say(f"history {number}: {code['probability']:.1%} {code['code']} {code['name']}")
    return read_json(out / storage.CARD) | ({"likeliest": told} if n_likeliest else {})


def _steered(out: Path, generator: Generator, steering: Steering) -> dict[str, Any]:
    """How near the sample came to the requested prevalences."""
    from dataclasses import asdict

    from adapcla.data import Cohort
    from adapcla.scaffold.steering import achieved, by_code

    cohort = generator.model.inside(Cohort.open(out))
    prevalence = cohort.prevalence()
    came = achieved(steering.target, prevalence, cohort.n_visits)
    if came.n_judged:
        say(
            f"{came.inside_sampling_error:.1%} of {came.n_judged} judged codes came out inside sampling error; "
            f"mean gap {came.mae:.2g}, of which sampling alone leaves {came.floor:.2g}"
        )
    else:
        say("no code of the target is frequent enough here to be judged")
    return {
        "achieved": asdict(came) if came.n_judged else None,
        "codes_by_prevalence": by_code(steering.target, generator.prevalence_, prevalence),
        "unknown_codes": len(steering.unknown),
        "unreachable_codes": len(steering.unreachable),
    }
