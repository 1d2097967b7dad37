"""From settings and patients to a fitted model: the one way in which any method is fitted.

A fit is a list of stages, each with its own settings; a stage begins with the weights that the one before left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from adapcla.data import Cohort, Kind, Origin, Prevalence
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.provenance import Group
from adapcla.data.quantization import Quantizer
from adapcla.data.rollup import MIN_PATIENTS_KEY
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import UsageError
from adapcla.files import folder_lock
from adapcla.generation import bundle
from adapcla.generation.calibration import calibrate_prevalence, calibrate_record_length
from adapcla.generation.model import Model, refuse_unlearnable, scaffold_bias, seen_records
from adapcla.machine import GIGABYTE, available_bytes
from adapcla.models.base import Objective, ScaffoldRule, Shape
from adapcla.scaffold import schedule
from adapcla.seeds import random_stream, stream_key
from adapcla.training.checkpoint import Journal
from adapcla.training.loop import Loop, Observer, Outcome
from adapcla.training.privacy import Protection
from adapcla.training.settings import Settings, refuse_unread, settings_from
from adapcla.training.tuning import choose_budget

#: Bytes that a parameter costs while it is trained: itself, its gradient, two moments, the best value so far, and all
#: but the gradient once more while a checkpoint is written.
BYTES_A_PARAMETER = 36


def demand_memory(settings: Settings, shape: Shape, prevalence: Prevalence) -> int:
    """The bytes that training this network takes at least; an error with a remedy where they are not free."""
    with torch.device("meta"):
        network = settings.network(shape, prevalence)
    n = sum(parameter.numel() for parameter in network.parameters())
    needed, free = BYTES_A_PARAMETER * n, available_bytes()
    if free is not None and needed > free:
        raise UsageError(
            f"{settings.method} on {shape.n_codes:,} codes has {n:,} parameters; training it needs "
            f"{needed / GIGABYTE:.1f} GB of memory and {free / GIGABYTE:.1f} GB are free\n"
            "to do: a smaller --set width=…, fewer codes by --set min_support=11, or another --method"
        )
    return needed


#: Validation patients that watch training; more would take longer to look at than training takes.
MOST_WATCHING = 10_000
#: The folder inside a run in which an earlier stage keeps its checkpoints and journal.
FIRST_STAGE = "first-stage"
#: What each named first stage changes in the settings of the whole fit.
FIRST_STAGES: dict[str, dict[str, Any]] = {
    "plain": {"schedule": "none", "first_stage": ""},
    "static": {"method": "static-pcla", "schedule": "constant", "bias_at_inference": True, "first_stage": ""},
}
_COSTS = ("steps", "passes")


class Pace(NamedTuple):
    """What a fit takes on a machine, in seconds."""

    beginning: float
    epoch: float


def stages(settings: Settings) -> tuple[Settings, ...]:
    """The settings of each stage of a fit, in order; the last are the settings themselves.

    >>> [stage.schedule for stage in stages(Settings(tempering=0.2, first_stage="static"))]
    ['constant', 'base']
    """
    if not settings.first_stage:
        return (settings,)
    return settings_from(settings, FIRST_STAGES[settings.first_stage]), settings


def fit(
    settings: Settings,
    train: Cohort,
    valid: Cohort,
    folder: Path | None = None,
    resume: bool = False,
    observers: Sequence[Observer] = (),
) -> tuple[Model, Outcome]:
    """The fitted model and what the fit took.

    With a folder, every stage leaves checkpoints and a journal there and can be resumed; observers look at the last.
    Numbers are cut into bins of the training patients, and learned as choices.
    """
    refuse_unread(settings)
    refuse_unlearnable(settings, train)
    settings = choose_budget(settings, train.n_patients)
    if valid.n_patients > MOST_WATCHING:
        some = random_stream(settings.seed, "some patients").choice(valid.n_patients, MOST_WATCHING, replace=False)
        valid = valid.subset(np.sort(some))
    valid = valid.on(train.vocabulary)
    if not train.vocabulary.numbers.any():
        return _fit_quantized(settings, train, valid, folder, resume, observers)
    warm = bundle.read(Path(settings.starts_from)).quantizer if settings.starts_from else None
    # Whoever rolled up codes of fewer patients wants nothing told of fewer, values among it.
    quantizer = warm or Quantizer.of(train, max(MIN_COUNT, int(train.card.get(MIN_PATIENTS_KEY, 0))))
    parts = quantizer.quantize(train), quantizer.quantize(valid)
    model, outcome = _fit_quantized(settings, *parts, folder, resume, observers)
    model.quantizer = quantizer
    model.facts |= {"training data": train.fingerprint, **_learned_from(settings, train, valid).as_card()}
    model.facts |= {"codes": train.n_codes, "numbers": len(quantizer.numbers)}
    return model, outcome


def _fit_quantized(
    settings: Settings,
    train: Cohort,
    valid: Cohort,
    folder: Path | None,
    resume: bool,
    observers: Sequence[Observer],
) -> tuple[Model, Outcome]:
    """The model of patients in the form that networks learn."""
    if settings.family.objective is None:
        return _count_model(settings, train, valid)
    *earlier, last = stages(settings)
    weights, spent, seconds = None, {}, 0.0
    for stage in earlier:
        stage_folder = None if folder is None else folder / FIRST_STAGE
        model, outcome = _train_stage(stage, train, valid, stage_folder, resume, (), weights)
        weights, spent = model.network.state_dict(), {name: model.facts[name] for name in _COSTS}
        seconds += outcome.seconds
    model, outcome = _train_stage(last, train, valid, folder, resume, observers, weights)
    if spent:
        # What the first stage cost is part of the whole.
        model.facts["first stage"] = spent
        for name in _COSTS:
            model.facts[name] = round(model.facts[name] + spent[name], 2)
        outcome.seconds += seconds
    return model, outcome


def _train_stage(
    settings: Settings,
    train: Cohort,
    valid: Cohort,
    folder: Path | None,
    resume: bool,
    observers: Sequence[Observer],
    weights: dict[str, Tensor] | None,
) -> tuple[Model, Outcome]:
    """One stage of a fit."""
    guard = Protection.begin(settings, train, valid, folder, resume)
    if guard is not None:
        train, valid = guard.train, guard.valid
    model = initial_model(settings, train, guard)
    if weights is not None:
        model.network.load_state_dict(weights)
    loop = Loop(
        objective_for(model),
        seen_records(settings, train, model.network.order),
        seen_records(settings, valid, model.network.order),
        settings.budget,
        settings.seed,
        folder,
        observers,
        None if guard is None else guard.step(),
        settings.last_weights,
    )
    if folder is None:
        outcome = loop.run()
    else:
        with folder_lock(folder):
            outcome = loop.run(resume=resume)
    facts = _facts(model, outcome, train, valid)
    if guard is not None:
        model.facts = guard.facts(facts)
        return model, outcome
    calibrate_record_length(model, train)
    model.facts |= facts
    if settings.calibration_rounds:
        calibrate_prevalence(model, train, valid, settings.calibration_rounds)
    return model, outcome


def measure_pace(settings: Settings, train: Cohort, seconds: float = 3.0) -> Pace | None:
    """How long a fit takes on this machine, by real steps on its patients; None where nothing is trained by steps.

    Private training is left out: its steps would be looks at the patients that ε does not cover.
    """
    settings = choose_budget(settings, train.n_patients)
    if settings.family.objective is None or settings.privacy is not None:
        return None
    n_steps = settings.budget.steps(train.n_patients)
    if train.n_patients > MOST_WATCHING:
        train = train.subset(np.arange(MOST_WATCHING))
    began = time.monotonic()
    if train.vocabulary.numbers.any():
        train = Quantizer.of(train).quantize(train)
    model = initial_model(settings, train)
    records = seen_records(settings, train, model.network.order)
    loop = Loop(objective_for(model), records, records, settings.budget, settings.seed)
    beginning = time.monotonic() - began
    return Pace(beginning, loop.seconds_per_step(seconds) * n_steps / settings.budget.passes)


def _count_model(settings: Settings, train: Cohort, valid: Cohort) -> tuple[Model, Outcome]:
    """A model that is fitted in one look at all patients: nothing to train, to stop early or to resume."""
    began = time.monotonic()
    assert settings.family.count is not None
    model = initial_model(settings, train)
    settings.family.count(model.network, seen_records(settings, train, model.network.order))
    loss = -float(model.log_likelihood(valid).sum()) / valid.n_visits
    outcome = Outcome(loss, 0, 0, 0, time.monotonic() - began, False, Journal())
    model.facts |= _facts(model, outcome, train, valid)
    return model, outcome


def initial_model(settings: Settings, train: Cohort, guard: Protection | None = None) -> Model:
    """The model before its first step: its network and the statistics of the training patients."""
    records = seen_records(settings, train)
    law, prevalence = AttributeDistribution.of(records.cohort.attributes, train.n_patients), train.prevalence()
    shape = Shape(
        train.n_codes,
        settings.architecture.context,
        tuple(len(categories) for categories in law.categories),
        settings.architecture.use_days and train.days is not None,
    )
    if guard is not None:
        prevalence, law = guard.count(records)
    demand_memory(settings, shape, prevalence)
    torch.manual_seed(stream_key(settings.seed, "weights") % (1 << 63))
    network = settings.network(shape, prevalence)
    shape = network.observe(records, shape)
    if settings.starts_from:
        warm = bundle.read(Path(settings.starts_from))
        if warm.vocabulary != train.vocabulary:
            raise UsageError(f"{settings.starts_from} was trained on another vocabulary; a warm start needs the same")
        network.load_state_dict(warm.network.state_dict())
    return Model(
        settings,
        network,
        prevalence,
        law,
        shape,
        np.bincount(train.codes_per_visit) if guard is None else np.zeros(0, dtype=np.int64),
        int(min(train.visits_per_patient.max(), shape.context)) if guard is None else shape.context,
        {"visits beyond the context": records.n_cut},
    )


def objective_for(model: Model) -> Objective:
    """What the training of this model minimises; an error where its family has no room for a setting."""
    settings, traits = model.settings, model.traits
    name = settings.architecture.family
    if not traits.scaffold and settings.schedule != "none":
        raise UsageError(
            f"schedule {settings.schedule!r}: the {name} family is trained without a scaffold\n"
            "to do: leave the schedule at 'none'"
        )
    if not traits.positive_weight and settings.positive_weight != 1:
        raise UsageError(f"positive_weight {settings.positive_weight:g}: the {name} family has no such weight")
    if not traits.output_bias and settings.calibration_rounds:
        raise UsageError(f"calibration_rounds: the {name} family has no output bias for it; leave it at 0")
    assert settings.family.objective is not None
    rule = ScaffoldRule(
        model.network.order.arrange(scaffold_bias(settings, model.prevalence)),
        schedule(settings.schedule),
        settings.positive_weight,
        settings.bias_at_inference or settings.bias_at_validation,
    )
    return settings.family.objective(model.network, rule)


def _facts(model: Model, outcome: Outcome, train: Cohort, valid: Cohort) -> dict[str, Any]:
    """What the card of the model says about the fit."""
    return {
        "patients": train.n_patients,
        "visits": train.n_visits,
        "codes": train.n_codes,
        "validation patients": valid.n_patients,
        "training data": train.fingerprint,
        **_learned_from(model.settings, train, valid).as_card(),
        "parameters": sum(parameter.numel() for parameter in model.network.parameters()),
        "steps": outcome.steps,
        "passes": round(outcome.steps * model.settings.budget.batch_size / train.n_patients, 2),
        "best step": outcome.best_step,
        "validation loss per visit": outcome.best_loss,
        "stopped early": outcome.stopped_early,
    }


def _learned_from(settings: Settings, train: Cohort, valid: Cohort) -> Origin:
    """The origin of what the model will write: from which patients it learned, a warm start's included."""
    groups = tuple(Group(role, c.fingerprint, c.origin) for role, c in (("train", train), ("valid", valid)))
    if settings.starts_from:
        before = bundle.read(Path(settings.starts_from)).origin
        groups += before.learned_from or (Group("warm start", "", before),)
    return Origin(Kind.SYNTHETIC, (), groups)
