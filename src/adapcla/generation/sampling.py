"""Patients of a fitted model: how they are drawn, a batch at a time or all at once, and what their card says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.data import Attribute, Cohort
from adapcla.data.provenance import Group, Origin
from adapcla.data.ragged import since_segment_start, starts_from_sizes
from adapcla.data.rules import Rules
from adapcla.errors import UsageError
from adapcla.generation.model import Model
from adapcla.generation.natural import as_natural
from adapcla.generation.rollout import BLOCK, Rolled, blocks, joined
from adapcla.models.base import DrawRule
from adapcla.scaffold import Steering


@dataclass(frozen=True)
class SampleRule:
    """How patients are drawn; the defaults are the paper's inference: the network's own logits and nothing else."""

    temperature: float = 1.0
    #: `natural`, or `match`: each visit holds exactly a number of codes that is drawn from the training visits.
    codes_per_visit: str = "natural"
    max_visits: int | None = None
    #: Visits with fewer codes are drawn again; 0 ends the record at an empty visit instead.
    min_codes: int = 0
    #: Fixed static attributes, such as {"sex": "F"}.
    where: tuple[tuple[str, str], ...] = ()
    #: Patients who break one of these are drawn again.
    rules: Rules | None = field(default=None, repr=False)


def sample(
    model: Model,
    n: int,
    seed: int,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    batch_size: int | None = None,
) -> Cohort:
    """`n` new patients; patient i of a seed is the same for any n and batch size."""
    rule = rule or SampleRule()
    rolled = joined(list(stream(model, n, seed, steering, rule, batch_size)))
    card = sample_card(model, n, seed, rule, steering) | redrawn_card(rule, rolled.redrawn)
    return as_natural(model, cohort_of(model, rolled, card), seed)


def stream(
    model: Model,
    n: int,
    seed: int,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    batch_size: int | None = None,
    first: int = 0,
) -> Iterator[Rolled]:
    """The same patients as `sample`, a batch at a time, from patient `first` (the beginning of a block) on.

    Numbers are bands still.
    """
    if n < 1:
        raise UsageError(f"{n} patients: expected at least 1")
    rule = rule or SampleRule()
    model.network.eval()
    law = model.law.given(rule.where)
    draw = draw_rule(model, steering, rule)
    max_visits = min(rule.max_visits or model.longest, model.settings.architecture.context)
    waiting: list[Rolled] = []
    n_waiting = 0
    broken = None if rule.rules is None else partial(breaks_rule, model, rule.rules)
    for part in blocks(model.network, law, draw, seed, n, max_visits, rule.min_codes, first, broken):
        waiting.append(part)
        n_waiting += len(part.lengths)
        if n_waiting >= (batch_size or BLOCK):
            yield joined(waiting)
            waiting, n_waiting = [], 0
    if waiting:
        yield joined(waiting)


def rules_for(model: Model, cohort: Cohort) -> Rules:
    """The rules that a cohort teaches about the codes that a model knows; a private model may have none.

    Rules are counted from patients outside of the budget of a private model, and would say more than it. They are about
    what comes out: that every inpatient stay has a length, whatever its band.
    """
    if model.facts.get("privacy") is not None:
        raise UsageError(
            "a private model: rules are counted from its patients outside of ε\nto do: leave out the rules"
        )
    known = model.natural.positions(cohort.vocabulary.tokens) >= 0
    # On the way inside, numbers that the model has not learned are left out: no rule may ask for them.
    rules = Rules.of(as_natural(model, model.inside(cohort.keep_codes(known)), seed=0))
    return replace(rules, counted_from=Group("rules", cohort.fingerprint, cohort.origin))


def breaks_rule(model: Model, rules: Rules, rolled: Rolled) -> NDArray[np.bool_]:
    """Which of some rolled patients break a rule; one without a visit breaks none."""
    out = np.zeros(len(rolled.lengths), dtype=bool)
    out[rolled.lengths > 0] = rules.any_broken(as_natural(model, cohort_of(model, rolled, {}), seed=0))
    return out


def redrawn_card(rule: SampleRule, redrawn: NDArray[np.int64]) -> dict[str, Any]:
    """What a cohort says about the rules that it was drawn under; nothing where there were none."""
    if rule.rules is None:
        return {}
    counts = {"drawn again": int((redrawn != 0).sum()), "still breaking one": int((redrawn < 0).sum())}
    return {"rules": {**rule.rules.counts, **counts, "fingerprint": rule.rules.fingerprint[:16]}}


def draw_rule(model: Model, steering: Steering | None = None, rule: SampleRule | None = None) -> DrawRule:
    """What is added to the logits, and how they are tempered."""
    rule = rule or SampleRule()
    bias = model.inference_bias
    if steering is not None and steering.moves:
        delta = torch.from_numpy(steering.delta).float()
        bias = delta if bias is None else bias + delta
    if rule.codes_per_visit not in ("natural", "match"):
        raise UsageError(f"codes_per_visit={rule.codes_per_visit!r}: expected 'natural' or 'match'")
    if rule.temperature <= 0:
        raise UsageError(f"temperature {rule.temperature}: expected a positive number")
    counts = None
    if rule.codes_per_visit == "match":
        sizes = model.visit_sizes
        if not len(sizes):
            raise UsageError("a private model does not know the sizes of visits: codes_per_visit must be 'natural'")
        counts = np.repeat(np.arange(len(sizes)), sizes)
    return DrawRule(bias, rule.temperature, counts)


def cohort_of(model: Model, rolled: Rolled, card: dict[str, Any]) -> Cohort:
    """Rolled patients as a cohort of the network's vocabulary; patients without a visit are dropped and counted."""
    has = rolled.lengths > 0
    card = {**card, "dropped": {"patients without visits": int((~has).sum())} if not has.all() else {}}
    starts = starts_from_sizes(rolled.lengths[has])
    days = None
    if model.shape.with_days:
        days = since_segment_start(np.cumsum(rolled.gaps), starts).astype(np.int32)
    attributes = {
        name: Attribute((rolled.attributes[has, column] - 1).astype(np.int16), model.law.categories[column])
        for column, name in enumerate(model.law.names)
    }
    return Cohort(
        model.vocabulary,
        rolled.codes,
        starts_from_sizes(rolled.visit_sizes),
        starts,
        days=days,
        attributes=attributes,
        card=card,
    )


def _origin(model: Model, rule: SampleRule) -> Origin:
    """Where drawn patients come from: whom the model learned from, and whom the rules were counted from."""
    source, known = None if rule.rules is None else rule.rules.counted_from, model.origin.learned_from
    # Where nothing is known of the model, one group alone would look like all of them.
    return model.origin if source is None or not known else replace(model.origin, learned_from=(*known, source))


def sample_card(model: Model, n: int, seed: int, rule: SampleRule, steering: Steering | None) -> dict[str, Any]:
    """What a synthetic cohort says about itself."""
    card: dict[str, Any] = {
        "source": "synthetic",
        **_origin(model, rule).as_card(),
        "method": model.method,
        "model": model.settings.fingerprint(),
        "seed": seed,
        "asked for": n,
        "rule": {"codes_per_visit": rule.codes_per_visit, "temperature": rule.temperature},
    }
    spent = model.facts.get("privacy")
    if spent is not None:
        card["privacy"] = {name: spent[name] for name in ("epsilon", "delta", "unit", "not covered")}
    if model.bands is not None:
        card["values"] = "drawn inside bands, each of the number's training values of 11 patients or more"
    if steering is not None:
        card["steering"] = {
            "strength": steering.strength,
            "unknown codes": len(steering.unknown),
            "codes never seen in training": len(steering.unreachable),
        }
    return card
