"""Patients drawn from a simulated world, which world drew a cohort, and references that need the world to be known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import poisson

from adapcla.data import Attribute, Cohort, Kind, Origin, Prevalence
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.errors import InputError, UsageError
from adapcla.io.simulator.structure import BIRTH_BANDS, GROUP_SHARE, MOST_VISITS, SEXES
from adapcla.io.simulator.whole_record import WholeRecordWorld, add_whole_record
from adapcla.io.simulator.world import BIRTH_BAND, LAW_SEED, SEX, History, World, make_world, tilt
from adapcla.seeds import keyed_uniform, stream_key

#: Raised when the same seeds give other patients, so that nobody takes the probabilities of one world for another's.
WORLD = 2
MOST_PATIENTS = 100_000_000
#: Patients drawn at once: bounds the memory, changes nothing else.
CHUNK = 20_000
_GROUP, _COUNT, _ARRIVAL, _LINK, _LASTING, _SHOWN, _REASON, _RETURN, _GAP, _THIN = range(10)
_MEAN_GAP_DAYS = 170.0
#: Batches of patients in which true prevalences are averaged.
_BATCHES = 20
#: Patients drawn to know how common the codes of a family are: the order of siblings is all that is needed.
_DRAWN_FOR_SIBLINGS = 2000


# ---- patients -------------------------------------------------------------------------------------------------
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
    #: Persistent codes of any earlier visit; the others leave no trace.
    ever: _Rows

    def history(self, n_codes: int) -> History:
        """The same in the form that the probabilities look at."""
        n_visits = np.full(len(self.patient), self.number, dtype=np.int64)
        return History(self.previous.matrix(n_codes), self.ever.matrix(n_codes), n_visits, self.group)


class Sampler:
    """Draws patients of one world under one seed.

    Every uniform number is keyed by (seed, patient, visit, purpose, slot), so that a patient is the same whoever else
    is drawn along. Base events are arrivals of a Poisson process on the cumulated hazard, which is exact: an event
    whose hazard is h has at least one arrival with probability 1 − exp(−h).
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.key = stream_key(seed, f"planted/patients/{world.population}", world.law_seed, world.n_codes)
        self.n_events = world.n_codes + world.structure.n_syndromes
        # Thinning can only remove: events that this population makes more likely are first drawn too often.
        self.excess = np.maximum(np.exp(world.log_odds), 1.0)

    @cached_property
    def _line(self) -> NDArray[np.float64]:
        """The hazards of all groups, one after another, cumulated (inside a group)."""
        return np.cumsum(self.world.base * self.excess, axis=1)

    @cached_property
    def _counts(self) -> NDArray[np.float64]:
        """Cumulated chances of 0, 1, … arrivals (groups × counts)."""
        most = int(self._line[:, -1].max() * 4 + 60)
        return poisson.cdf(np.arange(most)[None, :], self._line[:, -1:])

    @cached_property
    def _link_chance(self) -> NDArray[np.float64]:
        links = self.world.structure.progressions
        return 1 - (1 - links.chance) ** self.excess[links.target]

    @cached_property
    def _lasting_chance(self) -> NDArray[np.float64]:
        persistence = self.world.structure.persistence
        return 1 - (1 - persistence) ** self.excess[: self.world.n_codes]

    def uniform(
        self, patient: NDArray[np.int64], visit: int, purpose: int, slot: NDArray[np.int64] | int = 0
    ) -> NDArray[np.float64]:
        """One uniform number for each patient and slot."""
        counters = np.broadcast_to(((visit * 16 + purpose) << 40) + np.asarray(slot, dtype=np.int64), patient.shape)
        return keyed_uniform(self.key, patient, counters, 1)[:, 0]

    def chunks(self, patients: int) -> Iterator[Drawn]:
        """Patients 0 to `patients` − 1, chunk after chunk."""
        for start in range(0, patients, CHUNK):
            yield self.draw(np.arange(start, min(start + CHUNK, patients), dtype=np.int64))

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
                yield moment.history(self.world.n_codes)

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
        n_codes, number = self.world.n_codes, moment.number + 1
        after = moment._replace(number=number, previous=visit)
        chance = self.world.continues(after.history(n_codes))
        stays = np.flatnonzero(self.uniform(moment.patient, moment.number, _RETURN) < chance)
        lasting = self.world.structure.persistence[visit.codes] > 0
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
        n_codes, n_rows = self.world.n_codes, len(moment.patient)
        keys = np.concatenate([self._arrivals(moment), self._followed(moment), self._lasted(moment)])
        row, event = np.divmod(np.unique(keys), self.n_events)
        if self.world.log_odds.any():
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
        links = self.world.structure.progressions
        starts = links.starts(self.world.n_codes)
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
        shown = self.world.structure.emissions
        starts = shown.starts(self.world.structure.n_syndromes)
        begin, end = starts[syndrome], starts[syndrome + 1]
        row, member = np.repeat(row, end - begin), expand_ranges(begin, end)
        hit = self.uniform(moment.patient[row], moment.number, _SHOWN, member) < shown.chance[member]
        return row[hit] * self.world.n_codes + shown.target[member[hit]]

    def _reasons(self, moment: _Moment) -> NDArray[np.int64]:
        """The reason for each visit."""
        reasons, structure = self.world.layout.reasons, self.world.structure
        table, line = np.cumsum(structure.first_reason, axis=1), moment.group
        if moment.number > 0:
            # Every visit holds exactly one reason, and reasons are the last codes of the vocabulary.
            last = moment.previous.codes[moment.previous.starts[1:] - 1]
            table, line = np.cumsum(structure.next_reason, axis=1), last - reasons[0]
        point = self.uniform(moment.patient, moment.number, _REASON) * table[line, -1]
        return reasons[np.minimum(_search(table, line, point), len(reasons) - 1)]

    def _thinned(self, moment: _Moment, row: NDArray[np.int64], event: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which drawn events stay, so that each has its tilted chance exactly.

        An event of chance p whose odds are multiplied by w has chance q = wp / (1 − p + wp). It was drawn with chance
        d = 1 − (1 − p)^max(w, 1), never below q (Bernoulli's inequality), and stays with chance q / d.
        """
        kept = np.ones(len(row), dtype=bool)
        moved = np.flatnonzero(self.world.log_odds[event])
        at, what = row[moved], event[moved]
        hazard = self.world.base[moment.group[at], what]
        if moment.number > 0:
            history = moment.history(self.world.n_codes)
            hazard = hazard + np.asarray(self.world.history_hazard(history)[at, what]).ravel()
        chance, drawn = -np.expm1(-hazard), -np.expm1(-hazard * self.excess[what])
        goal = tilt(chance, self.world.log_odds[what])
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


def simulate(
    patients: int = 12_000,
    codes: int = 3000,
    seed: int = 1,
    population: str = "base",
    law_seed: int = LAW_SEED,
    whole: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Cohort:
    """Patients drawn from a world; patient i of a seed is the same however many `patients` there are.

    With `whole`, visits have a kind, a length, an ending, drugs, a procedure and values too (`WholeRecordWorld`), and
    nothing follows upon death. `advance` is called after each chunk with the number of its patients.

    >>> cohort = simulate(patients=20, codes=60, seed=1)
    >>> cohort.n_patients, cohort.n_codes, cohort.card["source"]
    (20, 60, 'planted')
    """
    if not 1 <= patients <= MOST_PATIENTS:
        raise UsageError(f"{patients} patients: expected 1 to {MOST_PATIENTS:,}")
    world = make_world(codes, population, law_seed)
    sampler, drawn = Sampler(world, seed), []
    for chunk in sampler.chunks(patients):
        drawn.append(chunk)
        if advance is not None:
            advance(len(chunk.visits))
    entries, visit_sizes, visits, days, group = (np.concatenate(pieces) for pieces in zip(*drawn, strict=True))
    arguments = {"patients": patients, "codes": codes, "seed": seed, "population": population, "law_seed": law_seed}
    cohort = Cohort(
        world.vocabulary,
        entries,
        starts_from_sizes(visit_sizes),
        starts_from_sizes(visits),
        days=days,
        attributes={
            SEX: Attribute((group // len(BIRTH_BANDS)).astype(np.int16), SEXES),
            BIRTH_BAND: Attribute((group % len(BIRTH_BANDS)).astype(np.int16), BIRTH_BANDS),
        },
        card={
            "source": "planted",
            **Origin(Kind.SIMULATED).as_card(),
            "arguments": {**arguments, "world": WORLD, **({"whole": True} if whole else {})},
            "visit_rule": f"drawn from a simulated world, at most {MOST_VISITS} a patient",
            "note": "Made up: nobody in this cohort is real.",
            "dropped": {},
        },
    )
    return add_whole_record(cohort, world, seed) if whole else cohort


# ---- the world of a cohort -------------------------------------------------------------------------------------
def world_of(cohort: Cohort, other_world: bool = False) -> World | None:
    """The world that drew a cohort, or the whole that it is a part of; None unless it was simulated.

    With `other_world` it is the world with the next seed, on the same codes: a counter-example.

    >>> world_of(simulate(patients=5, codes=60)).n_codes
    60
    >>> world_of(Cohort.of([[["A"]]])) is None
    True
    """
    world = _world_in_card(cohort, other_world)
    return world if world is not None and world.vocabulary == cohort.vocabulary else None


def whole_record_world_of(cohort: Cohort) -> WholeRecordWorld | None:
    """The world that drew a cohort with whole records, or the whole that it is a part of; None for any other cohort.

    >>> whole_record_world_of(simulate(patients=5, codes=60, whole=True)).world.n_codes
    60
    >>> whole_record_world_of(simulate(patients=5, codes=60)) is None
    True
    """
    world = _world_in_card(cohort)
    whole = None if world is None else WholeRecordWorld(world)
    return whole if whole is not None and whole.vocabulary == cohort.vocabulary else None


def _world_in_card(cohort: Cohort, other_world: bool = False) -> World | None:
    """The world of disorders that the card of a cohort names."""
    arguments = cohort.card.get("arguments", {})
    if cohort.origin.kind != Kind.SIMULATED or not {"codes", "population", "law_seed"} <= set(arguments):
        return None
    if arguments.get("world") != WORLD:
        raise InputError(
            f"a cohort simulated by another version: world {arguments.get('world', 1)} in its card",
            expected=f"world {WORLD}: only then are the true probabilities known",
            remedy="simulate it again with `adapcla simulate`",
        )
    return make_world(arguments["codes"], arguments["population"], arguments["law_seed"] + other_world)


def true_prevalence(world: World, patients: int = 8000, seed: int = 1) -> Prevalence:
    """The true share of visits with each code.

    First visits are exact. Histories of later visits are drawn, but the codes are not: their probabilities are
    averaged, so that even a code of a few visits in a million has a usable value.
    """
    sampler, shares = Sampler(world, seed), []
    for chunk in np.array_split(np.arange(patients, dtype=np.int64), _BATCHES):
        sums, n_later = np.zeros(world.n_codes), 0
        for history in sampler.later_visits(chunk):
            sums += world.next_visit(history).sum(axis=0)
            n_later += len(history.group)
        shares.append((len(chunk) * world.first_visit + sums) / (len(chunk) + n_later))
    return Prevalence(world.vocabulary, np.mean(shares, axis=0))


# ---- references that need a known world -------------------------------------------------------------------------
def ideal(like: Cohort, patients: int, seed: int) -> Cohort:
    """Fresh patients of the world that drew a cohort, nobody of them in it: what a perfect generator writes.

    >>> ideal(simulate(patients=20, codes=60, seed=1), patients=5, seed=1).n_patients
    5
    """
    whole = whole_record_world_of(like)
    world = world_of(like) if whole is None else whole.world
    if world is None:
        raise InputError(
            "a cohort that was not simulated",
            expected="a cohort of `adapcla simulate`: only there the true probabilities are known",
        )
    # A stream of its own: no seed that a person would choose for `simulate` gives the same patients.
    fresh = stream_key(seed, "planted/ideal")
    return simulate(patients, world.n_codes, fresh, world.population, world.law_seed, whole is not None)


def family_only(like: Cohort, patients: int, seed: int) -> Cohort:
    """Fresh patients whose every disorder became a sibling: what knowing families, but no code, can reach.

    The codes of a family in a visit are drawn again, as many as there were, by how common the siblings are. A patient
    keeps to the same siblings, so that what comes again is noted again. What else a whole visit holds stays.

    >>> cohort = simulate(patients=20, codes=60, seed=1)
    >>> exact, blurred = ideal(cohort, 5, seed=1), family_only(cohort, 5, seed=1)
    >>> blurred.codes_per_visit.tolist() == exact.codes_per_visit.tolist(), world_of(blurred) is None
    (True, True)
    """
    drawn = ideal(like, patients, seed)
    world = _world_in_card(drawn)
    assert world is not None  # the world of `like` drew it
    place = drawn.vocabulary.positions(world.vocabulary.tokens)
    category, share = np.full(drawn.n_codes, -1), np.zeros(drawn.n_codes)
    category[place], share[place] = world.layout.category, true_prevalence(world, _DRAWN_FOR_SIBLINGS).share
    codes, values = _draw_siblings(drawn, category, share, stream_key(seed, "planted/siblings"))
    card = {name: content for name, content in drawn.card.items() if name != "arguments"}
    card["visit_rule"] = "drawn from a simulated world, codes by family alone"
    return replace(drawn, codes=codes, values=values, card=card)


def _draw_siblings(
    cohort: Cohort, category: NDArray[np.int64], share: NDArray[np.float64], key: int
) -> tuple[NDArray[np.int32], NDArray[np.float32] | None]:
    """Codes and values of a cohort, every disorder drawn again inside its family; other codes have the category −1."""
    visit, codes = cohort.visit_of_entry, np.asarray(cohort.codes, dtype=np.int64)
    other = category[codes] < 0
    n_families = int(category.max()) + 1
    place, count = np.unique(visit[~other] * n_families + category[codes[~other]], return_counts=True)
    by_family = np.flatnonzero(category >= 0)
    by_family = by_family[np.argsort(category[by_family], kind="stable")]
    starts = starts_from_sizes(np.bincount(category[by_family], minlength=n_families))
    family = place % n_families
    size = starts[family + 1] - starts[family]
    sibling = by_family[expand_ranges(starts[family], starts[family + 1])]
    row = np.repeat(np.arange(len(place)), size)
    # The Gumbel trick: the largest of log share + noise are a draw without repeats by share.
    patient = cohort.patient_of_visit[place[row] // n_families]
    noise = -np.log(-np.log(keyed_uniform(key, patient, sibling, 1)[:, 0]))
    order = np.lexsort((-(np.log(np.maximum(share[sibling], 1e-12)) + noise), row))
    rank = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
    chosen = order[rank < count[row]]
    visits = np.concatenate([place[row[chosen]] // n_families, visit[other]])
    drawn = np.concatenate([sibling[chosen], codes[other]])
    into_order = np.lexsort((drawn, visits))
    values = None
    if cohort.values is not None:
        kept = np.asarray(cohort.values)[other]
        values = np.concatenate([np.full(len(chosen), np.nan, np.float32), kept])[into_order]
    return drawn[into_order].astype(np.int32), values
