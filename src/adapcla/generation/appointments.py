"""Proposals in which every visit of a record is, in turn, the one that first holds the asked code.

A *stem* is a record drawn from the model in which the codes of the asked clause are forbidden. At each of its visits,
and at the one that would have followed, a *branch* leaves it: the record so far, and then another draw of that visit,
in which one code c of the clause is appointed. It is made nearly certain, codes of the clause that stand before it in a
fixed order are forbidden, and other codes may be made more or less likely, as suits c. After that visit everything is
drawn as the model draws it. Which code is appointed is drawn by given chances; a branch in which it did not come counts
nothing.

A record that fulfils the condition has one first visit with a code of the clause, and in it one code of the clause that
stands first, so that of each stem it can be one branch only, with the weight

    w = product over visits up to the branch of p(visit | history) / q(visit | history), divided by the chance of c.

One uniform number u belongs to the stem. Its branches share the line from 0 to the sum of their weights, in their
order, and the one in whose stretch u · bound lies is taken. So nobody comes from the same stem as somebody else, and a
branch is taken with probability w / bound, as long as the sum does not pass the bound.

With `--at last` the code must be in the last visit: it may have come before, so that nothing is forbidden, and a branch
must end with its visit.

The weight is known with the branch's visit. Where nothing is asked of the rest of the record, a branch that could not
be taken any more is left there, and its later visits are never computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.data.criteria import Criteria
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.generation.continuation import prefilled
from adapcla.generation.proposals import Judge, Proposed, Proposer, Shifts, log_weights
from adapcla.generation.sampler import BLOCK, Rolled, cohort_of, joined, roll
from adapcla.models.base import Drawn, DrawRule
from adapcla.models.batch import packed
from adapcla.models.draws import Noise
from adapcla.seeds import stream_key

#: What is added to the log-odds of a code that must not come.
FORBIDDEN = -40.0
#: Numbers of shifts: that of visits before the appointed one, and that of the first code's appointed visit.
_BEFORE, _APPOINTED = 1, 2


@dataclass(frozen=True, eq=False)
class Appointments(Shifts):
    """The codes of a clause in their order, when each is appointed, and what is added to logits then."""

    condition: Criteria
    codes: NDArray[np.int64]
    rule: DrawRule
    #: (codes of the clause,) the chance that each is the appointed one.
    chances: NDArray[np.float64]
    #: (codes of the clause, codes) what is added to the logits of an appointed visit.
    shifts: NDArray[np.float64]

    def shift(self, which: int) -> NDArray[np.float64]:
        """What is added to the logits before the appointed visit, and in that of each code."""
        if which == _BEFORE:
            forbidden = np.zeros(self.shifts.shape[1])
            forbidden[self.codes] = FORBIDDEN
            return forbidden
        shift = self.shifts[which - _APPOINTED].copy()
        shift[self.codes[: which - _APPOINTED]] = FORBIDDEN
        return shift

    @property
    def before(self) -> int:
        """The number of the shifts of visits before the appointed one."""
        return 0 if self.condition.at == "last" else _BEFORE

    def drawn(self, patients: NDArray[np.int64], number: int, key: int) -> NDArray[np.int64]:
        """The place in the clause of the code that each patient's visit of this number is to hold."""
        upto = np.cumsum(self.chances)
        place = np.searchsorted(upto / upto[-1], Noise(key, patients, number).uniform(1, 0)[:, 0], side="right")
        return np.minimum(place, len(self.codes) - 1)

    def came(self, rolled: Rolled, code: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the last visit of each record holds its appointed code, and none of the clause came before that.

        >>> pair = Appointments(Criteria.of("B|C"), np.array([1, 2]), DrawRule(), np.ones(2) / 2, np.zeros((2, 3)))
        >>> ones, none = np.ones(4, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
        >>> codes = np.array([0, 2, 1, 2], dtype=np.int32)  # A, then C; B, then C
        >>> pair.came(Rolled(codes, ones, np.array([2, 2]), 0 * ones, none), np.array([1, 1])).tolist()
        [True, False]
        """
        place = np.full(self.shifts.shape[1], -1)
        place[self.codes] = np.arange(len(self.codes))
        n, what = len(rolled.lengths), place[rolled.codes]
        last = np.zeros(len(rolled.visit_sizes), dtype=bool)
        last[np.cumsum(rolled.lengths) - 1] = True
        patient = np.repeat(np.repeat(np.arange(n), rolled.lengths), rolled.visit_sizes)
        in_last = np.repeat(last, rolled.visit_sizes)
        first = np.full(n, len(self.codes))
        np.minimum.at(first, patient[in_last & (what >= 0)], what[in_last & (what >= 0)])
        came = first == code
        if self.before:
            came[patient[~in_last & (what >= 0)]] = False
        return came


@dataclass(eq=False)
class AppointedVisits:
    """A course of drawing one appointed visit, and the shifts by which each visit of its records was drawn."""

    raised: Appointments
    #: (patients,) the place of the appointed code in the clause.
    code: NDArray[np.int64]
    #: (patients, visits) the number of the shifts by which the visit was drawn; −1 where none was drawn.
    at_visit: NDArray[np.int64]

    def rules(self, alive: NDArray[np.int64], number: int) -> list[tuple[NDArray[np.int64], DrawRule]]:
        """The rule of each appointed code."""
        return self.raised.groups(_APPOINTED + self.code[alive])

    def saw(self, alive: NDArray[np.int64], number: int, drawn: Drawn) -> None:
        """Nothing is made of it."""

    def stays(self, alive: NDArray[np.int64], number: int) -> NDArray[np.bool_]:
        """Nobody is drawn on."""
        return np.zeros(len(alive), dtype=bool)


@dataclass(frozen=True, eq=False)
class Branches:
    """Records up to their appointed visits, by stem and then by visit; those in which the appointed code came."""

    rolled: Rolled
    #: The number of each branch's stem, and the place of the appointed code in the clause.
    stem: NDArray[np.int64]
    code: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64]) -> Branches:
        """Some of them."""
        return Branches(self.rolled.of_patients(rows), self.stem[rows], self.code[rows])

    def log_weight(self, proposer: AppointedProposer) -> NDArray[np.float64]:
        """log p / q of the visits, where the branches had been drawn by a proposer; without the chance of the code."""
        lengths, appointments = self.rolled.lengths, proposer.appointments
        number = np.arange(lengths.max(initial=1))
        at_visit = np.where(number < lengths[:, None] - 1, appointments.before, -1)
        at_visit[np.arange(len(lengths)), lengths - 1] = _APPOINTED + self.code
        course = AppointedVisits(appointments, self.code, at_visit)
        return log_weights(proposer.plain.model, course, self.rolled, np.arange(len(lengths)))


def first_visits(rolled: Rolled, n: int) -> Rolled:
    """The first n visits of records that have so many.

    >>> sizes, none = np.ones(3, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
    >>> rolled = Rolled(np.array([4, 5, 6], dtype=np.int32), sizes, np.array([2, 1]), 0 * sizes, none)
    >>> first_visits(rolled, 1).codes.tolist()
    [4, 6]
    """
    first, entry = starts_from_sizes(rolled.lengths)[:-1], starts_from_sizes(rolled.visit_sizes)
    visits = expand_ranges(first, first + n)
    codes = rolled.codes[expand_ranges(entry[visits], entry[visits + 1])]
    lengths = np.full(len(rolled.lengths), n, dtype=np.int64)
    return Rolled(codes, rolled.visit_sizes[visits], lengths, rolled.gaps[visits], rolled.attributes)


def sums_before(weight: NDArray[np.float64], stem: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each branch, the sum of the weights of the branches of its stem that stand before it; stems ascend.

    >>> sums_before(np.array([1.0, 2.0, 4.0]), np.array([7, 7, 9])).tolist()
    [0.0, 1.0, 0.0]
    """
    upto = np.cumsum(weight) - weight
    first = np.searchsorted(stem, stem, side="left")
    return np.asarray(np.maximum(upto - upto[first], 0.0))


@dataclass(frozen=True, eq=False)
class AppointedProposer:
    """Makes proposals with appointed visits for a condition of one clause."""

    plain: Proposer
    appointments: Appointments
    #: How shifts were chosen, for the card.
    described: dict[str, Any]
    steered: bool = True

    @property
    def settled(self) -> bool:
        """Whether the appointed visit decides that the condition is fulfilled."""
        asked = self.plain.condition
        return asked.at != "last" and not asked.without and asked.fewest_visits == 1 and asked.most_visits is None

    @property
    def n_places(self) -> int:
        """Visits among which the appointed one may be."""
        asked, most = self.plain.condition, self.plain.max_visits
        return 1 if asked.at == "first" else min(most, asked.within or most)

    @torch.no_grad()
    def branches(self, seed: int, low: int, n: int) -> tuple[Branches, int]:
        """The branches of stems low … low + n − 1 of a seed, and the visits that they took."""
        network = self.plain.model.network
        patients, attributes, state, key = self.plain.begun(seed, low, n)
        rule = self.appointments.rule_of(self.appointments.before)
        # The last visit that a branch may leave from is none of a stem.
        stems = roll(network, state, patients, attributes, rule, key, range(self.n_places - 1))
        parts, rows, codes = [], [], []
        for number in range(self.n_places):
            some = np.flatnonzero((stems.lengths >= number) & ~self._ended(stems, number))
            if not len(some):
                break
            code = self.appointments.drawn(patients[some], number, stream_key(seed, "appointed"))
            part = self._branched(first_visits(stems.of_patients(some), number), patients[some], code, key)
            there = np.flatnonzero(part.lengths > number)
            parts.append(part.of_patients(there))
            rows.append(some[there])
            codes.append(code[there])
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        found = Branches(joined(parts).of_patients(order), low + row[order], np.concatenate(codes)[order])
        came = np.flatnonzero(self.appointments.came(found.rolled, found.code))
        return found.of(came), len(stems.visit_sizes) + len(row)

    def _ended(self, stems: Rolled, n: int) -> NDArray[np.bool_]:
        """Which records have ended with their visit n at the latest: by death."""
        last = self.plain.model.network.last_code
        ended = np.zeros(len(stems.lengths), dtype=bool)
        if last is not None:
            owner = np.repeat(np.repeat(np.arange(len(ended)), stems.lengths), stems.visit_sizes)
            ended[owner[stems.codes == last]] = True
            ended &= stems.lengths <= n
        return ended

    def _state(self, begun: Rolled, patients: NDArray[np.int64], key: int) -> Any:
        """The state after records of equal length."""
        network, noise = self.plain.model.network, Noise(key, patients, 0)
        if not begun.lengths[0]:
            return network.begin(torch.from_numpy(begun.attributes), noise)
        return prefilled(
            network, packed(begun.codes, begun.visit_sizes, begun.lengths, begun.attributes, begun.gaps), noise
        )

    def _branched(self, begun: Rolled, patients: NDArray[np.int64], code: NDArray[np.int64], key: int) -> Rolled:
        """Records of equal length with an appointed visit after them, where they go on."""
        number = int(begun.lengths[0])
        course = AppointedVisits(self.appointments, code, np.zeros((len(code), 0), dtype=np.int64))
        state = self._state(begun, patients, key)
        visits = range(number, number + 1)
        return begun.followed_by(roll(self.plain.model.network, state, patients, begun.attributes, course, key, visits))

    def block(self, seed: int, low: int, judge: Judge | None = None) -> Proposed:
        """Proposals of stems low … low + BLOCK − 1 of a seed; those that are left early are not drawn to their end."""
        found, n_visits = self.branches(seed, low, BLOCK)
        weight = np.exp(found.log_weight(self)) / self.appointments.chances[found.code]
        on = np.ones(len(weight), dtype=bool)
        if self.settled and judge is not None:
            on = judge(found.stem, weight + sums_before(weight, found.stem))
        rows = np.flatnonzero(on)
        whole, fulfils = self.finished(found.of(rows), stream_key(seed, "on demand"))
        n_visits += int((whole.lengths - found.rolled.lengths[rows]).sum())
        if not self.settled:
            weight[~np.isin(np.arange(len(weight)), rows[fulfils])] = 0.0
        below, kept = sums_before(weight, found.stem), rows[fulfils]
        totals = np.bincount(found.stem - low, weight, minlength=BLOCK).astype(float)
        return Proposed(
            BLOCK, n_visits, whole.of_patients(fulfils), found.stem[kept], weight[kept], below[kept], totals[totals > 0]
        )

    @torch.no_grad()
    def finished(self, found: Branches, key: int) -> tuple[Rolled, NDArray[np.int64]]:
        """Branches drawn on as the model draws them, and those that fulfil the condition."""
        begun, network = found.rolled, self.plain.model.network
        ended = self._ended(begun, int(begun.lengths.max(initial=0)))
        parts, order = [begun.of_patients(np.flatnonzero(ended))], [np.flatnonzero(ended)]
        for length in np.unique(begun.lengths[~ended]):
            some = np.flatnonzero((begun.lengths == length) & ~ended)
            part, who = begun.of_patients(some), found.stem[some]
            visits, rule = range(int(length), self.plain.max_visits), self.appointments.rule
            later = roll(network, self._state(part, who, key), who, part.attributes, rule, key, visits)
            parts.append(part.followed_by(later))
            order.append(some)
        whole = joined(parts).of_patients(np.argsort(np.concatenate(order)))
        if not len(whole.lengths):
            return whole, np.zeros(0, dtype=np.int64)
        fulfils = self.plain.condition.matches(cohort_of(self.plain.model, whole, {}))
        if self.plain.condition.at == "last":
            fulfils &= whole.lengths == begun.lengths
        return whole, np.flatnonzero(fulfils)
