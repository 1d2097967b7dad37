"""Patients proposed with some codes made more likely, and how much more likely than by the model each came about.

A proposal is drawn visit by visit from the model itself, only that a shift is added to the logits of the codes of every
clause of the condition that is still open, and another, the same for all, to those of the other codes. The draws of a
visit given everything before it then have the probability q instead of p. Everything else (attributes, going on, days,
visits after the condition is met) is drawn as the model draws it, so that it cancels, and the weight of a proposed
patient is

    w = product over visits with a shift of p(visit | history) / q(visit | history),

which both likelihoods of the network give exactly. Visits that came out empty are visits too: one that ended the
record counts with its p / q. A first visit is drawn again until it holds a code, so that p and q are both given that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data.criteria import Criteria
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.generation.model import Model
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of, joined, roll
from adapcla.models.base import Drawn, DrawRule
from adapcla.models.batch import packed
from adapcla.models.draws import Noise
from adapcla.seeds import stream_key


class Shifts(ABC):
    """What may be added to the logits of a visit: numbered, 0 for nothing beyond the rule."""

    rule: DrawRule

    @abstractmethod
    def shift(self, which: int) -> NDArray[np.float64]:
        """(codes,) what is added to the logits, for a number above 0."""

    def bias(self, which: int) -> Tensor | None:
        """What is added to the logits of a visit, the rule included."""
        if not which:
            return self.rule.bias
        shift = torch.from_numpy(self.shift(which)).float()
        return shift if self.rule.bias is None else self.rule.bias + shift

    @cached_property
    def _rules(self) -> dict[int, DrawRule]:
        return {}

    def rule_of(self, which: int) -> DrawRule:
        """How a visit is drawn."""
        if which not in self._rules:
            self._rules[which] = DrawRule(self.bias(which), self.rule.temperature, self.rule.counts)
        return self._rules[which]

    def groups(self, which: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], DrawRule]]:
        """The rows that have each number, and how their visit is drawn."""
        return [(np.flatnonzero(which == one), self.rule_of(int(one))) for one in np.unique(which)]


@dataclass(frozen=True, eq=False)
class Raised(Shifts):
    """The clauses of a condition, the shift that each adds to its codes while it is open, and the rule without them.

    Which clauses are open is a number: bit k stands for clause k.
    """

    condition: Criteria
    clauses: tuple[NDArray[np.int64], ...]
    shifts: tuple[float, ...]
    rule: DrawRule
    n_codes: int
    #: Added to the log-odds of codes that nobody asks for, while a clause is open: where visits hold about so many
    #: codes, one that is to hold the asked code as well must hold fewer others.
    room: float = 0.0
    #: Codes of their own, which make room; those of choice groups do not.
    alone: NDArray[np.bool_] | None = None

    def shift(self, which: int) -> NDArray[np.float64]:
        """What is added to the logits of a visit in which these clauses are open."""
        asked = np.full(self.n_codes, -np.inf)
        for k, codes in enumerate(self.clauses):
            if which >> k & 1:
                asked[codes] = np.maximum(asked[codes], self.shifts[k])
        others = self.room if self.alone is None else np.where(self.alone, self.room, 0.0)
        return np.where(np.isinf(asked), others, asked)


@dataclass(eq=False)
class OpenClauses:
    """A course of drawing: raises the codes of clauses that are open, and keeps which were open at each visit."""

    raised: Raised
    n_patients: int
    max_visits: int
    #: (patients, visits) the clauses that were open when the visit was drawn; −1 where none was drawn.
    at_visit: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.at_visit = np.full((self.n_patients, self.max_visits), -1, dtype=np.int64)
        self._met = np.zeros((self.n_patients, len(self.raised.clauses)), dtype=bool)

    def rules(self, alive: NDArray[np.int64], number: int) -> list[tuple[NDArray[np.int64], DrawRule]]:
        """The rule of each set of open clauses."""
        condition = self.raised.condition
        can = number == 0 if condition.at == "first" else number < (condition.within or self.max_visits)
        bits = 1 << np.arange(self._met.shape[1], dtype=np.int64)
        open_clauses = (~self._met[alive] * bits).sum(axis=1) * can
        self.at_visit[alive, number] = open_clauses
        return self.raised.groups(open_clauses)

    def saw(self, alive: NDArray[np.int64], number: int, drawn: Drawn) -> None:
        """A clause that is met in any visit is closed; whether a visit is the last one is not known yet."""
        if self.raised.condition.at == "last":
            return
        who, codes = drawn
        for k, asked in enumerate(self.raised.clauses):
            self._met[alive[who[np.isin(codes, asked)]], k] = True

    def stays(self, alive: NDArray[np.int64], number: int) -> NDArray[np.bool_]:
        """Everybody is drawn on."""
        return np.ones(len(alive), dtype=bool)


class Steered(Protocol):
    """A course that kept by which shifts each visit was drawn."""

    @property
    def raised(self) -> Shifts:
        """What the numbers add."""

    @property
    def at_visit(self) -> NDArray[np.int64]:
        """(patients, visits) the number by which each visit was drawn; −1 where none was drawn."""


@torch.no_grad()
def log_weights(
    model: Model, course: Steered, rolled: Rolled, rows: NDArray[np.int64], before: Rolled | None = None
) -> NDArray[np.float64]:
    """The logarithm of the weight of some rolled patients; `before` holds the histories of those that were continued.

    Histories are those of `rows`, one each.
    """
    raised, opened = course.raised, course.at_visit[rows]
    some = rolled.of_patients(rows)
    # What comes after the last visit with a shift has the same law twice.
    shifted = opened > 0
    n_counted = np.where(shifted.any(axis=1), opened.shape[1] - shifted[:, ::-1].argmax(axis=1), 0)
    tried = _with_empty_ends(some, n_counted)
    flags = [opened[i, : n_counted[i]] for i in range(len(rows))]
    if before is not None:
        tried = before.followed_by(tried)
        flags = [np.r_[np.zeros(length, dtype=np.int64), f] for length, f in zip(before.lengths, flags, strict=True)]
    asked = np.flatnonzero(tried.lengths > 0)
    out = np.zeros(len(rows))
    if not len(asked):
        return out
    ratios = _log_ratios(model, raised, tried.of_patients(asked), np.concatenate([flags[i] for i in asked]))
    out[asked] = np.add.reduceat(ratios, starts_from_sizes(tried.lengths[asked])[:-1])
    if model.settings.architecture.empty_visits:
        out += _first_visits(model, raised, some.attributes, opened[:, 0], before)
    return out


def _with_empty_ends(rolled: Rolled, lengths: NDArray[np.int64]) -> Rolled:
    """Each record cut to so many visits; the one visit that a record may lack is the empty one that ended it."""
    kept = np.minimum(lengths, rolled.lengths)
    first = starts_from_sizes(rolled.lengths)[:-1]
    visits = expand_ranges(first, first + kept)
    entries = starts_from_sizes(rolled.visit_sizes)
    ends = np.cumsum(kept)[lengths > kept]
    return Rolled(
        rolled.codes[expand_ranges(entries[visits], entries[visits + 1])],
        np.insert(rolled.visit_sizes[visits], ends, 0),
        lengths,
        np.insert(rolled.gaps[visits], ends, 0),
        rolled.attributes,
    )


def _log_ratios(model: Model, raised: Shifts, tried: Rolled, opened: NDArray[np.int64]) -> NDArray[np.float64]:
    """(visits,) log p / q of each visit's codes, where `opened` are the numbers of the shifts."""
    plain, out = visit_nll(model, tried, raised.bias(0)), np.zeros(len(opened))
    owner, first = np.repeat(np.arange(len(tried.lengths)), tried.lengths), starts_from_sizes(tried.lengths)
    for which in _sets(opened):
        whose = np.unique(owner[opened == which])
        visits = expand_ranges(first[whose], first[whose + 1])
        shifted = visit_nll(model, tried.of_patients(whose), raised.bias(which))
        out[visits] += (shifted - plain[visits]) * (opened[visits] == which)
    return out


@torch.no_grad()
def visit_nll(model: Model, tried: Rolled, bias: Tensor | None) -> NDArray[np.float64]:
    """(visits,) the negative log-likelihood of each visit's codes after its history."""
    batch = packed(tried.codes, tried.visit_sizes, tried.lengths, tried.attributes, tried.gaps)
    return np.asarray(model.network.likelihood(batch, bias).codes.double().numpy())


def _first_visits(
    model: Model,
    raised: Shifts,
    attributes: NDArray[np.int64],
    opened: NDArray[np.int64],
    before: Rolled | None,
) -> NDArray[np.float64]:
    """log (1 − q(no code)) / (1 − p(no code)) of the first drawn visit, which is drawn again until it holds a code."""
    n = len(attributes)
    rows, copies = np.arange(n), np.arange(n)
    if before is None:  # all who have the same attributes and no history are the same
        _, rows, copies = np.unique(np.c_[attributes, opened], axis=0, return_index=True, return_inverse=True)
    one, none = np.ones(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    empty = Rolled(np.zeros(0, dtype=np.int32), none, one, none, attributes[rows])
    tried = empty if before is None else before.of_patients(rows).followed_by(empty)
    last = np.cumsum(tried.lengths) - 1
    # A batch without any code would be none: somebody with one visit of one code stands at its end.
    somebody = Rolled(np.zeros(1, dtype=np.int32), one[:1], one[:1], none[:1], attributes[:1])
    tried = joined([tried, somebody])
    plain, out = visit_nll(model, tried, raised.bias(0))[last], np.zeros(len(rows))
    for which in _sets(opened):
        here = opened[rows] == which
        shifted = visit_nll(model, tried, raised.bias(which))[last]
        out[here] = (np.log(-np.expm1(-shifted)) - np.log(-np.expm1(-plain)))[here]
    return out[np.asarray(copies).ravel()]


def _sets(opened: NDArray[np.int64]) -> Iterable[int]:
    """The sets of open clauses that occur, without the empty one."""
    return [int(which) for which in np.unique(opened) if which > 0]


@dataclass(frozen=True, eq=False)
class Proposed:
    """Some proposals: how many, what they cost, and those that fulfil the condition with their weights."""

    n: int
    n_visits: int
    kept: Rolled
    #: The number of each kept proposal.
    number: NDArray[np.int64]
    weight: NDArray[np.float64]
    #: Where the stretch of each kept proposal begins, and the sum of each proposal's stretches, those that were left
    #: early included; None where each has one stretch from 0 to its weight.
    below: NDArray[np.float64] | None = None
    totals: NDArray[np.float64] | None = None
    #: Share of all proposals that met each clause.
    met: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


#: Which proposals, by their numbers and the ends of their stretches, may still be taken.
Judge = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.bool_]]


class Begun(NamedTuple):
    """Proposals before their first visit."""

    patients: NDArray[np.int64]
    attributes: NDArray[np.int64]
    state: Any
    key: int


@dataclass(frozen=True, eq=False)
class Proposer:
    """Makes proposals for one condition; proposals of a key and number are always the same."""

    model: Model
    condition: Criteria
    rule: SampleRule
    raised: Raised

    @property
    def max_visits(self) -> int:
        """Visits after which nobody can fulfil the condition any more, or the longest record."""
        longest = min(self.rule.max_visits or self.model.longest, self.model.settings.architecture.context)
        most = self.condition.most_visits
        return longest if most is None else min(longest, most + 1)

    @property
    def steered(self) -> bool:
        """Whether any clause adds a shift."""
        return any(self.raised.shifts)

    @property
    def described(self) -> dict[str, Any]:
        """How proposals are drawn, for the card."""
        return {"shifts": self.raised.shifts, "room": self.raised.room} if self.steered else {}

    def begun(self, seed: int, low: int, n: int) -> Begun:
        """Proposals low … low + n − 1 of a seed before their first visit."""
        patients, key = np.arange(low, low + n), stream_key(seed, "on demand")
        law = self.model.law.given(self.rule.where)
        attributes = law.draw(patients, seed) if law.names else np.zeros((n, 0), dtype=np.int64)
        state = self.model.network.begin(torch.from_numpy(attributes), Noise(key, patients, 0))
        return Begun(patients, attributes, state, key)

    @torch.no_grad()
    def block(self, seed: int, low: int, judge: Judge | None = None) -> Proposed:
        """Proposals low … low + BLOCK − 1 of a seed; they are judged when they are whole."""
        model, visits = self.model, range(self.max_visits)
        patients, attributes, state, key = self.begun(seed, low, BLOCK)
        course = OpenClauses(self.raised, BLOCK, self.max_visits)
        how = course if self.steered else self.raised.rule
        rolled = roll(model.network, state, patients, attributes, how, key, visits, self.rule.min_codes)
        cohort = cohort_of(model, rolled, {})
        rows = np.flatnonzero(self.condition.matches(cohort))
        weight = np.exp(log_weights(model, course, rolled, rows)) if self.steered else np.ones(len(rows))
        met = self.condition.clause_matches(cohort).mean(axis=0)
        kept = rolled.of_patients(rows)
        return Proposed(BLOCK, len(rolled.visit_sizes), kept, patients[rows], weight, met=met)

    def shifted(self, shifts: tuple[float, ...], room: float = 0.0) -> Proposer:
        """The same with other shifts."""
        return replace(self, raised=replace(self.raised, shifts=shifts, room=room))
