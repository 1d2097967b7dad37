"""Patients of a fitted model: how they are drawn, a batch at a time or all at once, and what their card says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from adapcla.errors import UsageError
from adapcla.generators.model import Model
from adapcla.generators.rollout import BLOCK, Rolled, blocks, joined
from adapcla.networks.contract import DrawRule
from adapcla.records import Attribute, Cohort
from adapcla.records.offsets import since_first, starts_of
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
    return cohort_of(model, rolled, sample_card(model, n, seed, rule, steering))


def stream(
    model: Model,
    n: int,
    seed: int,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    batch_size: int | None = None,
    first: int = 0,
) -> Iterator[Rolled]:
    """The same patients as `sample`, a batch at a time, from patient `first` (the beginning of a block) on."""
    if n < 1:
        raise UsageError(f"{n} patients: expected at least 1")
    rule = rule or SampleRule()
    model.network.eval()
    law = model.law.given(rule.where)
    draw = draw_rule(model, steering, rule)
    max_visits = min(rule.max_visits or model.longest, model.settings.architecture.context)
    waiting: list[Rolled] = []
    n_waiting = 0
    for part in blocks(model.network, law, draw, seed, n, max_visits, rule.min_codes, first):
        waiting.append(part)
        n_waiting += len(part.lengths)
        if n_waiting >= (batch_size or BLOCK):
            yield joined(waiting)
            waiting, n_waiting = [], 0
    if waiting:
        yield joined(waiting)


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
    """Rolled patients as a cohort of the model's vocabulary; patients without a visit are dropped and counted."""
    has = rolled.lengths > 0
    card = {**card, "dropped": {"patients without visits": int((~has).sum())} if not has.all() else {}}
    starts = starts_of(rolled.lengths[has])
    days = None
    if model.shape.with_days:
        days = since_first(np.cumsum(rolled.gaps), starts).astype(np.int32)
    attributes = {
        name: Attribute((rolled.attributes[has, column] - 1).astype(np.int16), model.law.categories[column])
        for column, name in enumerate(model.law.names)
    }
    return Cohort(
        model.vocabulary,
        rolled.codes,
        starts_of(rolled.visit_sizes),
        starts,
        days=days,
        attributes=attributes,
        card=card,
    )


def sample_card(model: Model, n: int, seed: int, rule: SampleRule, steering: Steering | None) -> dict[str, Any]:
    """What a synthetic cohort says about itself."""
    card: dict[str, Any] = {
        "source": "synthetic",
        **model.origin.as_card(),
        "method": model.method,
        "model": model.settings.fingerprint(),
        "seed": seed,
        "asked for": n,
        "rule": {"codes_per_visit": rule.codes_per_visit, "temperature": rule.temperature},
    }
    spent = model.facts.get("privacy")
    if spent is not None:
        card["privacy"] = {name: spent[name] for name in ("epsilon", "delta", "unit", "not covered")}
    if steering is not None:
        card["steering"] = {
            "strength": steering.strength,
            "unknown codes": len(steering.unknown),
            "codes never seen in training": len(steering.unreachable),
        }
    return card
