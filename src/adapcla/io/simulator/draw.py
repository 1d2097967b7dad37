"""Patients drawn from a planted law, many at a time.

Every uniform number is keyed by (seed, patient, visit, purpose, slot), so that a patient is the same whoever else is
drawn along. Base events are arrivals of a Poisson process on the cumulated hazard, which is exact: an event whose
hazard is h has at least one arrival with chance 1 − exp(−h).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import poisson

from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.io.simulator.chances import Chances, History, tilted
from adapcla.io.simulator.structure import GROUP_SHARE
from adapcla.seeds import keyed_uniform, stream_key

#: Patients drawn at once: bounds the memory, changes nothing else.
CHUNK = 20_000
_GROUP, _COUNT, _ARRIVAL, _LINK, _LASTING, _SHOWN, _REASON, _RETURN, _GAP, _THIN = range(10)
_MEAN_GAP_DAYS = 170.0


class Drawn(NamedTuple):
    """Some patients, one after another, as flat arrays."""

    codes: NDArray[np.int32]
    visit_sizes: NDArray[np.int64]
    visits: NDArray[np.int64]
    days: NDArray[np.int32]
    group: NDArray[np.int64]


class _Rows(NamedTuple):
    """Sets of codes, one per patient, in patient order."""

    starts: NDArray[np.int64]
    codes: NDArray[np.int64]

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each code."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def kept(self, rows: NDArray[np.int64]) -> _Rows:
        """The sets of some rows."""
        sizes = np.diff(self.starts)[rows]
        return _Rows(starts_from_sizes(sizes), self.codes[expand_ranges(self.starts[rows], self.starts[rows + 1])])

    @classmethod
    def of(cls, keys: NDArray[np.int64], n_rows: int, n_codes: int) -> _Rows:
        """Sets from row × n_codes + code, in any order and with repeats."""
        keys = np.unique(keys)
        row, codes = np.divmod(keys, n_codes)
        return cls(starts_from_sizes(np.bincount(row, minlength=n_rows)), codes)

    def keys(self, n_codes: int) -> NDArray[np.int64]:
        """Each code as row × n_codes + code."""
        return self.row * n_codes + self.codes

    def matrix(self, n_codes: int) -> sparse.csr_matrix:
        """Rows × codes, 1 where the set holds the code."""
        return sparse.csr_matrix(
            (np.ones(len(self.codes), np.float32), self.codes, self.starts), shape=(len(self.starts) - 1, n_codes)
        )


class _Moment(NamedTuple):
    """What is known before a visit, of those patients who come."""

    #: Positions of the patients among those drawn.
    position: NDArray[np.int64]
    patient: NDArray[np.int64]
    group: NDArray[np.int64]
    #: Number of visits before.
    number: int
    day: NDArray[np.int64]
    previous: _Rows
    #: Persistent codes of any earlier visit; the others leave no trace in the law.
    ever: _Rows

    def history(self, n_codes: int) -> History:
        """The same in the form that the law reads."""
        n_visits = np.full(len(self.patient), self.number, dtype=np.int64)
        return History(self.previous.matrix(n_codes), self.ever.matrix(n_codes), n_visits, self.group)


class Sampler:
    """Draws patients of one law under one seed."""

    def __init__(self, law: Chances, seed: int) -> None:
        self.law = law
        self.key = stream_key(seed, f"planted/patients/{law.population}", law.law_seed, law.n_codes)
        self.n_events = law.n_codes + law.structure.n_syndromes
        # Thinning can only remove: events that this population makes more likely are first drawn too often.
        self.excess = np.maximum(np.exp(law.log_odds), 1.0)

    @cached_property
    def _line(self) -> NDArray[np.float64]:
        """The hazards of all groups, one after another, cumulated (inside a group)."""
        return np.cumsum(self.law.base * self.excess, axis=1)

    @cached_property
    def _counts(self) -> NDArray[np.float64]:
        """Cumulated chances of 0, 1, … arrivals (groups × counts)."""
        most = int(self._line[:, -1].max() * 4 + 60)
        return poisson.cdf(np.arange(most)[None, :], self._line[:, -1:])

    @cached_property
    def _link_chance(self) -> NDArray[np.float64]:
        links = self.law.structure.progressions
        return 1 - (1 - links.chance) ** self.excess[links.target]

    @cached_property
    def _lasting_chance(self) -> NDArray[np.float64]:
        persistence = self.law.structure.persistence
        return 1 - (1 - persistence) ** self.excess[: self.law.n_codes]

    def uniform(
        self, patient: NDArray[np.int64], visit: int, purpose: int, slot: NDArray[np.int64] | int = 0
    ) -> NDArray[np.float64]:
        """One uniform number for each patient and slot."""
        counters = np.broadcast_to(((visit * 16 + purpose) << 40) + np.asarray(slot, dtype=np.int64), patient.shape)
        return keyed_uniform(self.key, patient, counters, 1)[:, 0]

    def chunks(self, patients: int, chunk: int = CHUNK) -> Iterator[Drawn]:
        """Patients 0 to `patients` − 1, chunk after chunk."""
        for start in range(0, patients, chunk):
            yield self.draw(np.arange(start, min(start + chunk, patients), dtype=np.int64))

    def draw(self, patient: NDArray[np.int64]) -> Drawn:
        """These patients, whole."""
        owners, sizes, codes, days = [], [], [], []
        for moment, visit in self._visits(patient):
            owners.append(moment.position)
            sizes.append(np.diff(visit.starts))
            codes.append(visit.codes)
            days.append(moment.day)
        return _in_patient_order(owners, sizes, codes, days, self.groups(patient))

    def later_visits(self, patient: NDArray[np.int64]) -> Iterator[History]:
        """The histories before the second, third, … visit of these patients, for those who come."""
        for moment, _ in self._visits(patient):
            if moment.number > 0:
                yield moment.history(self.law.n_codes)

    def groups(self, patient: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of each patient."""
        return np.searchsorted(np.cumsum(GROUP_SHARE)[:-1], self.uniform(patient, 0, _GROUP), side="right")

    def _visits(self, patient: NDArray[np.int64]) -> Iterator[tuple[_Moment, _Rows]]:
        """First visits, second visits, …, each with the moment before it."""
        nothing = _Rows(np.zeros(len(patient) + 1, np.int64), np.zeros(0, np.int64))
        here = np.arange(len(patient))
        moment = _Moment(here, patient, self.groups(patient), 0, np.zeros_like(here), nothing, nothing)
        while len(moment.patient):
            visit = self._visit(moment)
            yield moment, visit
            moment = self._next_moment(moment, visit)

    def _next_moment(self, moment: _Moment, visit: _Rows) -> _Moment:
        """What is known before the next visit of those who come again."""
        n_codes, number = self.law.n_codes, moment.number + 1
        after = moment._replace(number=number, previous=visit)
        chance = self.law.continues(after.history(n_codes))
        stays = np.flatnonzero(self.uniform(moment.patient, moment.number, _RETURN) < chance)
        lasting = self.law.structure.persistence[visit.codes] > 0
        seen = [moment.ever.keys(n_codes), visit.keys(n_codes)[lasting]]
        patient = moment.patient[stays]
        gap = np.floor(-np.log(self.uniform(patient, number, _GAP)) * _MEAN_GAP_DAYS).astype(np.int64)
        return _Moment(
            moment.position[stays],
            patient,
            moment.group[stays],
            number,
            moment.day[stays] + 1 + gap,
            visit.kept(stays),
            _Rows.of(np.concatenate(seen), len(moment.patient), n_codes).kept(stays),
        )

    def _visit(self, moment: _Moment) -> _Rows:
        """The codes of the visit that follows a moment."""
        n_codes, n_rows = self.law.n_codes, len(moment.patient)
        keys = np.concatenate([self._arrivals(moment), self._followed(moment), self._lasted(moment)])
        row, event = np.divmod(np.unique(keys), self.n_events)
        if self.law.log_odds.any():
            kept = self._thinned(moment, row, event)
            row, event = row[kept], event[kept]
        is_code = event < n_codes
        entries = [
            row[is_code] * n_codes + event[is_code],
            self._shown(moment, row[~is_code], event[~is_code] - n_codes),
            np.arange(n_rows) * n_codes + self._reasons(moment),
        ]
        return _Rows.of(np.concatenate(entries), n_rows, n_codes)

    def _arrivals(self, moment: _Moment) -> NDArray[np.int64]:
        """Base events as row × events + event."""
        count = _search(self._counts, moment.group, self.uniform(moment.patient, moment.number, _COUNT))
        row = np.repeat(np.arange(len(count)), count)
        slot = expand_ranges(np.zeros(len(count), np.int64), count)
        group = moment.group[row]
        point = self.uniform(moment.patient[row], moment.number, _ARRIVAL, slot) * self._line[group, -1]
        # Rounding may put a point on the very end of its line.
        return row * self.n_events + np.minimum(_search(self._line, group, point), self.n_events - 1)

    def _followed(self, moment: _Moment) -> NDArray[np.int64]:
        """Events that codes of the previous visit bring."""
        links = self.law.structure.progressions
        starts = links.starts(self.law.n_codes)
        begin, end = starts[moment.previous.codes], starts[moment.previous.codes + 1]
        row, link = np.repeat(moment.previous.row, end - begin), expand_ranges(begin, end)
        hit = self.uniform(moment.patient[row], moment.number, _LINK, link) < self._link_chance[link]
        return row[hit] * self.n_events + links.target[link[hit]]

    def _lasted(self, moment: _Moment) -> NDArray[np.int64]:
        """Codes of earlier visits that are noted again."""
        row, codes = moment.ever.row, moment.ever.codes
        hit = self.uniform(moment.patient[row], moment.number, _LASTING, codes) < self._lasting_chance[codes]
        return row[hit] * self.n_events + codes[hit]

    def _shown(self, moment: _Moment, row: NDArray[np.int64], syndrome: NDArray[np.int64]) -> NDArray[np.int64]:
        """Members that active syndromes show, as row × codes + code."""
        shown = self.law.structure.emissions
        starts = shown.starts(self.law.structure.n_syndromes)
        begin, end = starts[syndrome], starts[syndrome + 1]
        row, member = np.repeat(row, end - begin), expand_ranges(begin, end)
        hit = self.uniform(moment.patient[row], moment.number, _SHOWN, member) < shown.chance[member]
        return row[hit] * self.law.n_codes + shown.target[member[hit]]

    def _reasons(self, moment: _Moment) -> NDArray[np.int64]:
        """The reason for each visit."""
        reasons, world = self.law.layout.reasons, self.law.structure
        table, line = np.cumsum(world.first_reason, axis=1), moment.group
        if moment.number > 0:
            # Every visit holds exactly one reason, and reasons are the last codes of the vocabulary.
            last = moment.previous.codes[moment.previous.starts[1:] - 1]
            table, line = np.cumsum(world.next_reason, axis=1), last - reasons[0]
        point = self.uniform(moment.patient, moment.number, _REASON) * table[line, -1]
        return reasons[np.minimum(_search(table, line, point), len(reasons) - 1)]

    def _thinned(self, moment: _Moment, row: NDArray[np.int64], event: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which drawn events stay, so that each has its tilted chance exactly.

        An event of chance p whose odds are multiplied by w has chance q = wp / (1 − p + wp). It was drawn with chance
        d = 1 − (1 − p)^max(w, 1), never below q (Bernoulli's inequality), and stays with chance q / d.
        """
        kept = np.ones(len(row), dtype=bool)
        moved = np.flatnonzero(self.law.log_odds[event])
        at, what = row[moved], event[moved]
        hazard = self.law.base[moment.group[at], what]
        if moment.number > 0:
            history = moment.history(self.law.n_codes)
            hazard = hazard + np.asarray(self.law.history_hazard(history.previous, history.ever)[at, what]).ravel()
        chance, drawn = -np.expm1(-hazard), -np.expm1(-hazard * self.excess[what])
        goal = tilted(chance, self.law.log_odds[what])
        kept[moved] = self.uniform(moment.patient[at], moment.number, _THIN, what) * drawn < goal
        return kept


def _search(table: NDArray[np.float64], line: NDArray[np.int64], point: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many numbers of table[line[i]] are at most point[i]; every line of the table ascends.

    >>> _search(np.array([[1.0, 2.0], [5.0, 9.0]]), np.array([0, 1]), np.array([1.5, 9.5])).tolist()
    [1, 2]
    """
    out = np.empty(len(point), dtype=np.int64)
    for number in range(len(table)):
        here = line == number
        out[here] = np.searchsorted(table[number], point[here], side="right")
    return out


def _in_patient_order(
    owners: list[NDArray[np.int64]],
    sizes: list[NDArray[np.int64]],
    codes: list[NDArray[np.int64]],
    days: list[NDArray[np.int64]],
    group: NDArray[np.int64],
) -> Drawn:
    """Visits that were drawn visit by visit, put together patient by patient."""
    owner, size = np.concatenate(owners), np.concatenate(sizes)
    order = np.argsort(owner, kind="stable")
    starts = starts_from_sizes(size)
    entries = expand_ranges(starts[order], starts[order + 1])
    return Drawn(
        np.concatenate(codes)[entries].astype(np.int32),
        size[order],
        np.bincount(owner, minlength=len(group)).astype(np.int64),
        np.concatenate(days)[order].astype(np.int32),
        group,
    )
