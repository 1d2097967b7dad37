"""Verbs about models: `train`, `sample`, `methods`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla import engine
from adapcla.cli.options import AsJson, Cluster, DryRun, Given, Out, Overwrite, Verb, attributes_of, emit, show_need
from adapcla.console import say
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapcla.data import Cohort
    from adapcla.data.criteria import Criteria
    from adapcla.generation.generator import Generator
    from adapcla.generation.sampler import SampleRule
    from adapcla.pipeline.settings import SampleOptions, TrainOptions
    from adapcla.scaffold import Steering

#: Patients that `--show` prints at most.
_SHOWN = 20


# ---- train --------------------------------------------------------------------------------------------------
def train(
    cohort: Annotated[
        Path,
        typer.Argument(help="Folder of parts that `split` wrote, or cohort folder, which is divided the same way."),
    ],
    out: Out,
    given: Given,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit a method to the train part and validate it on the valid part; test and control patients are never read.

    Epochs, batches and learning rate that are not given follow from the number of training patients; the weights of the
    best validation loss are kept.
    --set changes any setting of the method (--set width=64), of the split (--set split.seed=4) and of private training
    (--set privacy.delta=1e-6, --set privacy.prior=TABLE).
    """
    from adapcla.data.split_folder import open_or_split
    from adapcla.generation.generator import generator_for
    from adapcla.generation.run_folder import outcome, train_run

    asked, changes = _train_options(given.settings)
    # What is wrong with the options is said before any patient is read.
    generator_for(asked.method, **changes)
    split = given.settings.get("split.seed")
    parts = open_or_split(cohort, None if split is None else asked.split.seed, asked.split.control)
    fit_on, watch = parts["train"], parts["valid"].on(parts["train"].vocabulary)
    support = max(asked.min_support, MIN_COUNT if asked.shareable else 0)
    if support:
        fit_on, watch = _rolled_up(fit_on, watch, support)
    kept = {"resume": resume, "overwrite": overwrite, "shareable": asked.shareable}
    fitted = train_run(generator_for(asked.method, **changes), fit_on, watch, out, **kept)
    if fitted.model_ is None:
        # Another machine, whose first process holds the run that was complete already, says what there is to say.
        return
    facts = fitted.model.facts if fitted.outcome_ is None else outcome(fitted)
    spent = facts.get("privacy")
    if spent is not None:
        say(f"ε = {spent['epsilon']:g} at δ = {spent['delta']:g}; what that covers is in {out / 'model' / 'README.md'}")
    if as_json:
        emit({"run": str(out), "method": asked.method, **facts})
    else:
        loss = facts["validation loss per visit"]
        loss_text = "" if loss is None else f", validation loss {loss:.4f} a visit"
        say(f"{out}: {asked.method}{loss_text}; next: adapcla sample {out} --patients 1000 --out …")


def _train_options(given: dict[str, Any]) -> tuple[TrainOptions, dict[str, Any]]:
    """The options of training, and the changed settings of the method."""
    from adapcla.pipeline.settings import TrainOptions, settings_from

    own = {name: value for name, value in given.items() if name.split(".")[0] in TrainOptions.model_fields}
    asked = settings_from(TrainOptions, {}, own, "train")
    changes: dict[str, Any] = {"seed": asked.seed, "device": asked.device}
    privacy: dict[str, Any] = {} if asked.epsilon is None else {"epsilon": asked.epsilon}
    for name, value in given.items():
        group, dot, rest = name.partition(".")
        if group == "privacy" and dot:
            privacy[rest] = value
        elif name not in own:
            changes[name] = value
    if asked.epochs is not None:
        changes["passes"] = asked.epochs
    if privacy and asked.epsilon is None and "privacy" not in changes:
        raise UsageError("privacy.… belongs to private training\nto do: add --epsilon")
    if privacy:
        changes["privacy"] = {**(changes.get("privacy") or {}), **privacy}
        if asked.shareable or asked.min_support:
            raise UsageError(
                "--epsilon with --shareable or min_support: leaving codes out by their counts reads patients beyond ε\n"
                "to do: leave it out; name the codes to keep by a public table, --set privacy.prior=FILE"
            )
    return asked, changes


def _rolled_up(fit_on: Cohort, watch: Cohort, support: int) -> tuple[Cohort, Cohort]:
    """Both parts with every code of fewer training patients in the place of an ancestor that has as many."""
    from adapcla.data.rollup import roll_up

    rolled = roll_up(fit_on, support)
    codes = rolled.facts(fit_on)["codes"]
    say(
        f"of the codes held by fewer than {support} training patients, {codes['rolled up']:,} are rolled up to an "
        f"ancestor that has as many, and {codes['not placed']:,} have none and are left out"
    )
    return rolled.apply(fit_on), rolled.apply(watch)


# ---- sample -------------------------------------------------------------------------------------------------
def sample(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run or saved model.")],
    given: Given,
    out: Annotated[
        Path | None, typer.Option("--out", help="Cohort folder to write; needed unless patients are only shown.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the patients as timelines.")] = False,
    cluster: Cluster = "local",
    dry_run: DryRun = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a sample that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write new patients to a cohort folder; patient i of a seed is always the same."""
    from adapcla.data import Cohort
    from adapcla.generation.generator import load
    from adapcla.generation.sample_folder import stream_sample
    from adapcla.generation.sampler import SampleRule, rules_for
    from adapcla.pipeline.settings import SampleOptions, settings_from

    asked = settings_from(SampleOptions, given.settings, source="sample")
    if asked.patients is None and asked.histories is None:
        raise UsageError("expected --patients N, or --continue HISTORIES")
    generator = load(run)
    attributes = attributes_of(asked.where)
    toward = None if asked.toward is None else Path(asked.toward)
    steering = generator.steering(toward, asked.strength, asked.missing, asked.calibrate, asked.seed, asked.pilot)
    if steering is not None and steering.unknown:
        say(
            f"{len(steering.unknown)} codes of the target are unknown to the model: {', '.join(steering.unknown[:8])} …"
        )
    condition = _condition(asked)
    rules = None if asked.rules is None else rules_for(generator.model, Cohort.open(asked.rules))
    rule = SampleRule(
        asked.temperature,
        asked.codes_per_visit,
        asked.max_visits,
        asked.min_codes,
        () if condition else attributes,
        rules,
    )
    patients = asked.patients or 0
    if dry_run:
        from adapcla.pipeline.estimate import sampling_need

        if asked.histories is not None or condition is not None:
            raise UsageError("--dry-run with --continue, --having or --without: their time is not known before")
        with engine.cluster(cluster):
            workers = engine.n_workers()
        show_need(sampling_need(generator.model, patients, asked.seed, steering, rule, workers), as_json)
        return
    if out is None:
        _require_only_shown(show, resume, as_json)
        drawn = _drawn(generator, asked, condition, steering, rule)
        _print_timelines(generator, drawn)
        return
    if asked.histories is not None:
        card = _continued(generator, asked, condition, out, overwrite, steering)
    elif condition is not None:
        card = _write_conditional(generator, asked, condition, steering, rule, out, resume, overwrite)
    else:
        kept = {"resume": resume, "overwrite": overwrite}
        with engine.cluster(cluster):
            card = stream_sample(generator.model, patients, asked.seed, out, steering=steering, rule=rule, **kept)
    result: dict[str, Any] = {"out": str(out), **{name: card[name] for name in ("patients", "visits", "codes")}}
    if "rules" in card:
        result["rules"] = card["rules"]
        say(f"{card['rules']['drawn again']:,} patients broke a rule and were drawn again")
    result |= {name: card[name] for name in ("condition", "effort", "likeliest") if name in card}
    if steering is not None and condition is None and asked.histories is None:
        result |= _steered(out, generator, steering)
    if show:
        _print_timelines(generator, Cohort.open(out))
    if as_json:
        emit(result)
    else:
        say(f"{out}: {card['patients']:,} synthetic patients, {card['visits']:,} visits")


def _condition(asked: SampleOptions) -> Criteria | None:
    """What all patients fulfil, where anything is asked of them."""
    from adapcla.data.criteria import Criteria

    within = None if asked.histories is not None else asked.within
    if not (asked.having or asked.without or asked.visits or asked.at != "any" or within is not None):
        return None
    where = attributes_of(asked.where)
    return Criteria.of(list(asked.having), list(asked.without), where, asked.visits, asked.at, asked.within)


def _require_only_shown(show: bool, resume: bool, as_json: bool) -> None:
    """Raise unless patients are only to be shown, which needs no folder."""
    if not show or resume or as_json:
        raise UsageError("no --out\nto do: name the folder to write, or --show a few patients")


def _drawn(
    generator: Generator,
    asked: SampleOptions,
    condition: Criteria | None,
    steering: Steering | None,
    rule: SampleRule,
) -> Cohort:
    """The patients that are only shown."""
    from adapcla.generation.conditional import sample_given
    from adapcla.generation.sampler import sample

    if asked.histories is not None:
        raise UsageError("--continue needs --out")
    if asked.patients is None or asked.patients > _SHOWN:
        raise UsageError(f"--show without --out\nexpected: --patients of at most {_SHOWN}\nto do: add --out")
    if condition is not None:
        return sample_given(generator.model, asked.patients, asked.seed, condition, steering, rule, None)
    return sample(generator.model, asked.patients, asked.seed, steering=steering, rule=rule)


def _print_timelines(generator: Generator, cohort: Cohort) -> None:
    """Print the first patients: each visit with its day and its codes, rare ones marked."""
    import numpy as np

    from adapcla.report.timelines import Album

    prevalence = generator.model.prevalence
    rare = {token for token, is_rare in zip(prevalence.vocabulary.tokens, prevalence.rare, strict=True) if is_rare}
    album = Album(cohort, np.array([token in rare for token in cohort.vocabulary.tokens]))
    for patient in range(min(cohort.n_patients, _SHOWN)):
        line = album.timeline(patient)
        typer.echo(f"Synthetic patient {patient + 1}: " + ", ".join(filter(None, [line.who, line.span])))
        for number, visit in enumerate(line.visits, 1):
            typer.echo(f"  visit {number}" + ("" if visit.day is None else f", day {visit.day:,}"))
            for code in visit.codes:
                name = "" if code["name"] == code["code"] else f"  {code['name']}"
                typer.echo(f"    {code['code']}{name}" + ("  [rare]" if code["rare"] else ""))
            if visit.n_more:
                typer.echo(f"    and {visit.n_more} more codes")
        if line.n_more:
            typer.echo(f"  and {line.n_more} later visits")


def _write_conditional(
    generator: Generator,
    asked: SampleOptions,
    condition: Criteria,
    steering: Steering | None,
    rule: SampleRule,
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
    known = None if asked.train is None else Cohort.open(asked.train)
    cohort = sample_given(generator.model, asked.patients or 0, asked.seed, condition, steering, rule, known)
    cohort.save(out, overwrite)
    return read_json(out / storage.CARD)


def _continued(
    generator: Generator,
    asked: SampleOptions,
    condition: Criteria | None,
    out: Path,
    overwrite: bool,
    steering: Steering | None,
) -> dict[str, Any]:
    """Continuations of histories, `draws` of each in their order, written as a cohort of the new visits; its card."""
    from adapcla.data import Cohort, storage
    from adapcla.files import read_json, refuse_populated
    from adapcla.generation.continuation import as_known, likeliest
    from adapcla.io import read

    visits, draws, seed = asked.within or 1, asked.draws, asked.seed
    refuse_populated(out, overwrite)
    histories = Path(asked.histories or "")
    known = as_known(generator.model, Cohort.open(histories) if histories.is_dir() else read("table", histories))
    if condition is not None:
        condition = replace(condition, within=visits)
        found = generator.continue_given(known, condition, draws, seed, steering)
    else:
        found = generator.continue_(known, visits, draws, seed, steering)
    drawn = found.drawn
    replace(drawn, card={**drawn.card, "draws": draws, "histories": known.n_patients}).save(out, overwrite)
    if not asked.likeliest:
        return read_json(out / storage.CARD)
    listed = likeliest(found, asked.likeliest)
    for number, codes in enumerate(listed, 1):
        for code in codes:
            say(f"history {number}: {code['probability']:.1%} {code['code']} {code['name']}")
    return read_json(out / storage.CARD) | {"likeliest": listed}


def _steered(out: Path, generator: Generator, steering: Steering) -> dict[str, Any]:
    """How near the sample came to the requested prevalences."""
    from dataclasses import asdict

    from adapcla.data import Cohort
    from adapcla.scaffold.steering import by_code, measure_gap

    cohort = generator.model.quantize(Cohort.open(out))
    prevalence = cohort.prevalence()
    came = measure_gap(steering.target, prevalence, cohort.n_visits)
    if came.n_judged:
        say(
            f"{came.inside_sampling_error:.1%} of {came.n_judged} assessed codes came out inside sampling error; "
            f"mean gap {came.mae:.2g}, of which sampling alone leaves {came.floor:.2g}"
        )
    else:
        say("no code of the target is frequent enough here to be assessed")
    return {
        "achieved": asdict(came) if came.n_judged else None,
        "codes_by_prevalence": by_code(steering.target, generator.prevalence_, prevalence),
        "unknown_codes": len(steering.unknown),
        "unreachable_codes": len(steering.unreachable),
    }


# ---- methods ------------------------------------------------------------------------------------------------
def methods(as_json: AsJson = False) -> None:
    """List the methods: what each is, where it comes from, what it starts from, how large it is, what it can do."""
    from adapcla.generation.generator import describe_method
    from adapcla.training.settings import METHODS

    rows = [describe_method(name) for name in METHODS]
    if as_json:
        emit({"methods": rows})
        return
    for row in rows:
        typer.echo("\n".join(_method_lines(row)))


def _method_lines(row: dict[str, Any]) -> list[str]:
    """A row for people."""
    size = row["parameters"]
    lines = [
        f"{row['name']}  [{row['paper']}]",
        f"  {row['summary']}",
        f"  starts from {row['starts_from']}; {size:,} parameters at {row['codes']:,} codes; {row['passes']:g} epochs"
        if size
        else f"  starts from {row['starts_from']}; nothing is trained",
        f"  supports: {', '.join(row['supports']) or 'sampling only'}",
    ]
    return lines + ([f"  note: {row['note']}"] if row["note"] else [])


def _train_group() -> type[BaseModel]:
    from adapcla.pipeline.settings import TrainOptions

    return TrainOptions


def _sample_group() -> type[BaseModel]:
    from adapcla.pipeline.settings import SampleOptions

    return SampleOptions


VERBS = (
    Verb(
        "train",
        train,
        _train_group,
        former={
            "--dp": "--epsilon 8",
            "--delta": "--set privacy.delta=VALUE",
            "--prior": "--set privacy.prior=FILE",
            "--schedule": "--set schedule=NAME",
            "--passes": "--epochs N",
            "--split-seed": "--set split.seed=N",
            "--control": "--set split.control=SHARE",
        },
    ),
    Verb("sample", sample, _sample_group, former={"--shard": "--cluster auto", "--assemble": "--cluster auto"}),
    Verb("methods", methods),
)
