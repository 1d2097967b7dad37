"""Patients of a fitted model, drawn visit by visit in blocks; all at once, a batch at a time, or straight to disk.

A block is always computed whole, and its content depends on seed and patient number alone, so that patient i of a seed
is the same whatever is requested: another number of patients, another batch size, another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.data import Attribute, Cohort
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.provenance import Group, Origin
from adapcla.data.ragged import expand_ranges, since_segment_start, starts_from_sizes
from adapcla.data.rules import Rules
from adapcla.errors import UsageError
from adapcla.generation.model import Model, dequantize
from adapcla.models.base import DrawRule, Network
from adapcla.models.draws import Noise
from adapcla.scaffold import Steering
from adapcla.seeds import stream_key

#: Patients computed together.
BLOCK = 1024
#: Times that a patient who breaks a rule is drawn again.
REDRAWS = 20


@dataclass(frozen=True, eq=False)
class Rolled:
    """Patients as flat arrays: what a cohort needs, without its vocabulary."""

    codes: NDArray[np.int32]
    visit_sizes: NDArray[np.int64]
    lengths: NDArray[np.int64]
    gaps: NDArray[np.int64]
    attributes: NDArray[np.int64]
    #: How often each patient was drawn again because of a rule; negative where the last draw breaks one, too.
    redrawn: NDArray[np.int64] = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.redrawn is None:
            object.__setattr__(self, "redrawn", np.zeros(len(self.lengths), dtype=np.int64))

    def first(self, n: int) -> Rolled:
        """The first n patients."""
        return self if n >= len(self.lengths) else self.of_patients(np.arange(n))

    def of_patients(self, chosen: NDArray[np.int64]) -> Rolled:
        """The patients at these positions, in that order.

        >>> none = np.zeros((2, 0), dtype=np.int64)
        >>> two = Rolled(np.arange(3, dtype=np.int32), np.array([1, 2]), np.array([1, 1]), np.array([0, 0]), none)
        >>> two.of_patients(np.array([1])).codes.tolist()
        [1, 2]
        """
        first, entry = starts_from_sizes(self.lengths), starts_from_sizes(self.visit_sizes)
        visits = expand_ranges(first[chosen], first[chosen + 1])
        return Rolled(
            self.codes[expand_ranges(entry[visits], entry[visits + 1])],
            self.visit_sizes[visits],
            self.lengths[chosen],
            self.gaps[visits],
            self.attributes[chosen],
            self.redrawn[chosen],
        )

    def followed_by(self, later: Rolled) -> Rolled:
        """The same patients with the visits of `later` after their own.

        >>> none = np.zeros((2, 0), dtype=np.int64)
        >>> def visits(*codes):
        ...     sizes = np.ones(2, dtype=np.int64)
        ...     return Rolled(np.array(codes, dtype=np.int32), sizes, sizes, np.zeros(2, dtype=np.int64), none)
        >>> visits(1, 2).followed_by(visits(3, 4)).codes.tolist()
        [1, 3, 2, 4]
        """
        both = join([self, later])
        n = len(self.lengths)
        order = np.stack([np.arange(n), n + np.arange(n)], axis=1).ravel()
        mixed = both.of_patients(order)
        return Rolled(mixed.codes, mixed.visit_sizes, self.lengths + later.lengths, mixed.gaps, self.attributes)


def join(parts: list[Rolled]) -> Rolled:
    """Several rolls, one after another."""
    return Rolled(*(np.concatenate([getattr(p, name) for p in parts]) for name in Rolled.__dataclass_fields__))


#: The rule by which some patients (rows of the state that sampling began with) have their visit of a number drawn.
RuleOf = Callable[[NDArray[np.int64], int], DrawRule]


def roll(
    network: Network,
    state: Any,
    patients: NDArray[np.int64],
    attributes: NDArray[np.int64],
    rule: DrawRule | RuleOf,
    key: int,
    n_visits: int,
    min_codes: int = 0,
) -> Rolled:
    """Records of these patients from `state` on, of at most so many visits, the first of which is certain."""
    alive = np.arange(len(patients))
    kept: list[Visits] = []
    order = network.order
    for number in range(n_visits):
        now = rule if isinstance(rule, DrawRule) else rule(alive, number)
        noise = Noise(key, patients[alive], number * 64)
        step = network.step(state, now, noise, max(min_codes, number == 0), certain=number == 0)
        kept.append(Visits(alive[step.rows], number, alive[step.who], order.decode(step.codes), step.gap))
        alive, state = alive[step.on], step.state
        if not len(alive):
            break
    return flat(kept, attributes)


class Visits(NamedTuple):
    """The visits of one number."""

    rows: NDArray[np.int64]  # (visits,) the patient of each
    number: int
    who: NDArray[np.int64]  # (entries,) the patient of each code
    codes: NDArray[np.int64]  # (entries,)
    gap: NDArray[np.int64]  # (visits,)


def flat(kept: list[Visits], attributes: NDArray[np.int64]) -> Rolled:
    """Flat arrays in patient order from the visits of each number."""
    n = len(attributes)
    kept = [visits for visits in kept if len(visits.rows)]
    if not kept:
        empty = np.zeros(0, dtype=np.int64)
        return Rolled(empty.astype(np.int32), empty, np.zeros(n, dtype=np.int64), empty, attributes)
    patient, code = np.concatenate([v.who for v in kept]), np.concatenate([v.codes for v in kept])
    visit_number = np.concatenate([np.full(len(v.who), v.number) for v in kept])
    order = np.lexsort((code, visit_number, patient))
    patient, visit_number, code = patient[order], visit_number[order], code[order]
    new_visit = np.r_[True, (np.diff(patient) != 0) | (np.diff(visit_number) != 0)]
    sizes = np.diff(np.r_[np.flatnonzero(new_visit), len(code)])
    owner = np.concatenate([v.rows for v in kept])
    when = np.concatenate([np.full(len(v.rows), v.number) for v in kept])
    gaps = np.concatenate([v.gap for v in kept])[np.lexsort((when, owner))]
    return Rolled(code.astype(np.int32), sizes, np.bincount(owner, minlength=n), gaps, attributes)


def blocks(
    network: Network,
    law: AttributeDistribution,
    rule: DrawRule,
    seed: int,
    n: int,
    max_visits: int,
    min_codes: int,
    first: int = 0,
    broken: Callable[[Rolled], NDArray[np.bool_]] | None = None,
) -> Iterator[Rolled]:
    """Patients first … n − 1 of a seed, block by block; `first` must be the beginning of a block.

    Patients that are `broken` are drawn again, with the same attributes.
    """

    def drawn(patients: NDArray[np.int64], attributes: NDArray[np.int64], key: int) -> Rolled:
        state = network.begin(torch.from_numpy(attributes), Noise(key, patients, 0))
        return roll(network, state, patients, attributes, rule, key, max_visits, min_codes)

    for low in range(first, n, BLOCK):
        patients = np.arange(low, low + BLOCK)
        attributes = law.draw(patients, seed) if law.names else np.zeros((BLOCK, 0), dtype=np.int64)
        whole = drawn(patients, attributes, stream_key(seed, "patients"))
        if broken is not None:
            whole = _redraw_broken(whole, broken, drawn, patients, seed)
        yield whole.first(min(BLOCK, n - low))


def _redraw_broken(
    whole: Rolled,
    broken: Callable[[Rolled], NDArray[np.bool_]],
    drawn: Callable[[NDArray[np.int64], NDArray[np.int64], int], Rolled],
    patients: NDArray[np.int64],
    seed: int,
) -> Rolled:
    """A block in which broken patients are drawn again until they are not, or too often.

    Who is broken in a whole block does not depend on how many patients are wanted, so that patients who are drawn
    again together always are.
    """
    for attempt in range(1, REDRAWS + 1):
        who = np.flatnonzero(broken(whole))
        if not len(who):
            return whole
        again = drawn(patients[who], whole.attributes[who], stream_key(seed, "patients again", attempt))
        again.redrawn[:] = attempt
        order = np.arange(len(whole.lengths))
        order[who] = len(whole.lengths) + np.arange(len(who))
        whole = join([whole, again]).of_patients(order)
    whole.redrawn[broken(whole)] *= -1
    return whole


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
    rolled = join(list(stream(model, n, seed, steering, rule, batch_size)))
    card = sample_card(model, n, seed, rule, steering) | redrawn_card(rule, rolled.redrawn)
    return dequantize(model, cohort_of(model, rolled, card), seed)


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

    Numbers are bins still.
    """
    if n < 1:
        raise UsageError(f"{n} patients: expected at least 1")
    rule = rule or SampleRule()
    model.network.eval()
    law = model.attribute_distribution.given(rule.where)
    draw = draw_rule(model, steering, rule)
    max_visits = min(rule.max_visits or model.longest, model.settings.architecture.context)
    waiting: list[Rolled] = []
    n_waiting = 0
    broken = None if rule.rules is None else partial(breaks_rule, model, rule.rules)
    for part in blocks(model.network, law, draw, seed, n, max_visits, rule.min_codes, first, broken):
        waiting.append(part)
        n_waiting += len(part.lengths)
        if n_waiting >= (batch_size or BLOCK):
            yield join(waiting)
            waiting, n_waiting = [], 0
    if waiting:
        yield join(waiting)


def rules_for(model: Model, cohort: Cohort) -> Rules:
    """The rules that a cohort teaches about the codes that a model knows; a private model may have none.

    Rules are counted from patients outside of the budget of a private model, and would say more than it. They are about
    what comes out: that every inpatient stay has a length, whatever its band.
    """
    if model.facts.get("privacy") is not None:
        raise UsageError(
            "a private model: rules are counted from its patients outside of ε\nto do: leave out the rules"
        )
    known = model.raw_vocabulary.positions(cohort.vocabulary.tokens) >= 0
    # On the way inside, numbers that the model has not learned are left out: no rule may ask for them.
    rules = Rules.of(dequantize(model, model.quantize(cohort.keep_codes(known)), seed=0))
    return replace(rules, counted_from=Group("rules", cohort.fingerprint, cohort.origin))


def breaks_rule(model: Model, rules: Rules, rolled: Rolled) -> NDArray[np.bool_]:
    """Which of some rolled patients break a rule; one without a visit breaks none."""
    out = np.zeros(len(rolled.lengths), dtype=bool)
    out[rolled.lengths > 0] = rules.any_broken(dequantize(model, cohort_of(model, rolled, {}), seed=0))
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
        delta = model.network.order.arrange(torch.from_numpy(steering.delta).float())
        bias = delta if bias is None else bias + delta
    if rule.codes_per_visit not in ("natural", "match"):
        raise UsageError(f"codes_per_visit={rule.codes_per_visit!r}: expected 'natural' or 'match'")
    if rule.temperature <= 0:
        raise UsageError(f"temperature {rule.temperature}: expected a positive number")
    counts = None
    if rule.codes_per_visit == "match":
        sizes = model.visit_sizes
        if not sizes.any():
            raise UsageError("this model does not know the sizes of visits: codes_per_visit must be 'natural'")
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
    learned, rows = model.attribute_distribution, (rolled.attributes[has] - 1).astype(np.int16)
    attributes = {
        name: Attribute(rows[:, column], categories)
        for column, (name, categories) in enumerate(zip(learned.names, learned.categories, strict=True))
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
    if model.quantizer is not None:
        card["values"] = "drawn inside bands, each of the number's training values of 11 patients or more"
    if steering is not None:
        card["steering"] = {
            "strength": steering.strength,
            "unknown codes": len(steering.unknown),
            "codes never seen in training": len(steering.unreachable),
        }
    return card
