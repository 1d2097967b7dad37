"""A simulated world: the true probability of everything that can happen next, and patients drawn from it.

Given a patient's history, all events of the next visit are independent, so that every probability has a closed form:
an event e has the hazard  base[group, e] + Σ over codes of the previous visit + Σ over codes of any earlier visit,
and a code is absent when its own event is and no active syndrome shows it. Patients are drawn by comparing uniform
numbers with these probabilities, so that the truth and the draws cannot disagree.

It is the ground truth of tests and analyses; a world of another seed is their counter-example: the same codes, names
and target prevalences with another structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Attribute, Cohort, Kind, Origin, Prevalence, Vocabulary
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.errors import InputError, UsageError
from adapcla.io.simulator.codes import CodeLayout, code_layout
from adapcla.io.simulator.structure import (
    BIRTH_BANDS,
    GROUP_SHARE,
    MOST_VISITS,
    N_GROUPS,
    SEXES,
    Balance,
    Structure,
    balance_rates,
    draw_structure,
    moved_log_odds,
    rewire,
)
from adapcla.io.simulator.whole_record import WholeRecordWorld, add_whole_record
from adapcla.seeds import keyed_uniform, stream_key

#: The populations of a world: as first drawn; some prevalences moved; prevalences and structure moved.
POPULATIONS = ("base", "shifted", "deep")
LAW_SEED = 7
#: Raised when the same seeds give other patients, so that nobody takes the probabilities of one world for another's.
WORLD = 3
MOST_PATIENTS = 100_000_000
#: Names of the patient attributes that the probabilities depend on.
SEX, BIRTH_BAND = "sex", "birth_band"
#: Patients drawn together, always whole, so that a patient is the same however many are asked for.
BLOCK = 4000
#: Cells of patients × events that are compared at once: bounds the memory, changes nothing else.
_CELLS = 400_000
_MEAN_GAP_DAYS = 170.0
#: Patients drawn to know how common the codes of a family are: the order of siblings is all that is needed.
_DRAWN_FOR_SIBLINGS = 2000


class History(NamedTuple):
    """What the probabilities look at: one row for each moment in a patient's record."""

    #: Codes of the visit before (rows × codes, 0 or 1); empty before a first visit.
    previous: sparse.csr_matrix
    #: Codes of any visit before (rows × codes, 0 or 1).
    ever: sparse.csr_matrix
    #: Number of visits before.
    n_visits: NDArray[np.int64]
    #: Sex and birth band as one number, see `World.groups`.
    group: NDArray[np.int64]

    def rows(self, chosen: NDArray[np.int64] | slice) -> History:
        """The history at some of the moments."""
        return History(self.previous[chosen], self.ever[chosen], self.n_visits[chosen], self.group[chosen])


@dataclass(frozen=True, eq=False)
class World:
    """Codes, structure and rates of a population, and the probability of everything that can happen in it next."""

    layout: CodeLayout
    structure: Structure
    balance: Balance
    #: What this population adds to the log-odds of each event, at every history; 0 in the base population.
    log_odds: NDArray[np.float64]
    population: str
    law_seed: int

    @property
    def vocabulary(self) -> Vocabulary:
        """The codes of the world."""
        return self.layout.vocabulary

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.layout.vocabulary)

    @property
    def code_shift(self) -> NDArray[np.float64]:
        """What this population adds to the log-odds of each code at every history: exact, 0 where nothing moves.

        Members of a moved syndrome move too, by an amount that depends on the history; they are 0 here and listed by
        `moved_members`.
        """
        return self.log_odds[: self.n_codes]

    @property
    def moved_members(self) -> NDArray[np.bool_]:
        """Codes that a moved syndrome shows."""
        moved = self.log_odds[self.n_codes :] != 0
        out = np.zeros(self.n_codes, dtype=bool)
        out[self.structure.emissions.target[moved[self.structure.emissions.source]]] = True
        return out

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """Hazard of each event without any history (groups × events)."""
        return self.balance.hazard[None, :] * self.structure.group_factor

    @cached_property
    def _from_previous(self) -> sparse.csr_matrix:
        """Hazards that codes of the previous visit add to events (codes × events)."""
        links = self.structure.progressions
        shape = (self.n_codes, self.n_codes + self.structure.n_syndromes)
        return sparse.csr_matrix((-np.log1p(-links.chance), (links.source, links.target)), shape=shape)

    @cached_property
    def _from_earlier(self) -> sparse.csr_matrix:
        """Hazards that codes of any earlier visit add to events: to themselves (codes × events)."""
        chronic = np.flatnonzero(self.structure.persistence)
        values = -np.log1p(-self.structure.persistence[chronic])
        return sparse.csr_matrix((values, (chronic, chronic)), shape=self._from_previous.shape)

    @cached_property
    def _emitted(self) -> sparse.csr_matrix:
        """Emissions × codes, 1 at the code that each emission shows."""
        target = self.structure.emissions.target
        entries = (np.ones(len(target)), (np.arange(len(target)), target))
        return sparse.csr_matrix(entries, shape=(len(target), self.n_codes))

    @cached_property
    def _at_first(self) -> NDArray[np.float64]:
        """The probability of each event without any history (groups × events)."""
        return tilt(-np.expm1(-self.base), self.log_odds)

    # ---- probabilities ----------------------------------------------------------------------------------
    def event_probabilities(self, history: History) -> NDArray[np.float64]:
        """The probability of each event at the next visit (rows × events), reasons for a visit left out."""
        out = self._at_first[history.group]
        added = (history.previous @ self._from_previous + history.ever @ self._from_earlier).tocoo()
        hazard = self.base[history.group[added.row], added.col] + added.data
        out[added.row, added.col] = tilt(-np.expm1(-hazard), self.log_odds[added.col])
        return out

    def next_visit(self, history: History, batch: int = 2048) -> NDArray[np.float64]:
        """The probability of each code at the next visit, given that there is one (rows × codes)."""
        out = np.empty((len(history.group), self.n_codes))
        shown = self.structure.emissions
        for start in range(0, len(out), batch):
            part = history.rows(slice(start, start + batch))
            events = self.event_probabilities(part)
            missed = np.log1p(-events[:, self.n_codes :][:, shown.source] * shown.chance) @ self._emitted
            chances = -np.expm1(np.log1p(-events[:, : self.n_codes]) + missed)
            chances[:, self.layout.reasons] = self.reason_probabilities(part)
            out[start : start + batch] = chances
        return out

    def reason_probabilities(self, history: History) -> NDArray[np.float64]:
        """The probability of each reason for the next visit (rows × reasons); they sum to 1."""
        last = history.previous[:, self.layout.reasons]
        count = np.asarray(last.sum(axis=1))
        following = np.asarray(last @ self.structure.next_reason) / np.maximum(count, 1)
        return np.where(count > 0, following, self.structure.first_reason[history.group])

    def continues(self, history: History) -> NDArray[np.float64]:
        """The probability that the record goes on after these visits: 1 before the first, 0 after the twentieth."""
        log_odds = np.concatenate([[np.inf], self.balance.return_log_odds, [-np.inf]])
        level = log_odds[np.minimum(history.n_visits, MOST_VISITS)]
        return 1 / (1 + np.exp(-(level + history.previous @ self.structure.return_weight)))

    @property
    def newcomers(self) -> History:
        """The history before the first visit of one patient of each group."""
        nothing = sparse.csr_matrix((N_GROUPS, self.n_codes), dtype=np.float32)
        return History(nothing, nothing, np.zeros(N_GROUPS, dtype=np.int64), np.arange(N_GROUPS))

    @cached_property
    def first_visit(self) -> NDArray[np.float64]:
        """The probability of each code at the first visit of an average patient."""
        return GROUP_SHARE @ self.next_visit(self.newcomers)

    def prevalence(self, patients: int = 8000, seed: int = 1) -> Prevalence:
        """The true share of visits with each code.

        First visits are exact. Histories of later visits are drawn, but the codes are not: their probabilities are
        averaged, so that even a code of a few visits in a million has a usable value.
        """
        total, n_visits = patients * self.first_visit, patients
        for block in range(-(-patients // BLOCK)):
            for moment in draw_visits(self, seed, block):
                history = moment.history.rows(np.flatnonzero(moment.patient < patients))
                if len(history.group) and history.n_visits[0] > 0:
                    total = total + self.next_visit(history).sum(axis=0)
                    n_visits += len(history.group)
        return Prevalence(self.vocabulary, total / n_visits)

    # ---- histories --------------------------------------------------------------------------------------
    def groups(self, cohort: Cohort) -> NDArray[np.int64]:
        """The group of each patient of a cohort with the attributes sex and birth band."""
        for name in (SEX, BIRTH_BAND):
            if name not in cohort.attributes or (np.asarray(cohort.attributes[name].values) < 0).any():
                raise InputError(
                    f"patients without the attribute {name!r}",
                    expected="sex and birth band of every patient: the probabilities depend on them",
                    remedy="use a cohort of `adapcla simulate`",
                )
        sex, band = (np.asarray(cohort.attributes[name].values, dtype=np.int64) for name in (SEX, BIRTH_BAND))
        return np.asarray(sex * len(BIRTH_BANDS) + band)

    def before_visits(self, cohort: Cohort) -> History:
        """The history before each visit of a cohort, row for row as in `cohort.matrix()`."""
        matrix = cohort.on(self.vocabulary).matrix()
        visit, last = np.arange(cohort.n_visits), cohort.last_visits[cohort.patient_of_visit]
        later, earlier = expand_ranges(visit + 1, last + 1), np.repeat(visit, last - visit)
        before = sparse.csr_matrix((np.ones(len(later), np.float32), (later, earlier)), shape=(cohort.n_visits,) * 2)
        follows = np.flatnonzero(cohort.visit_number > 0)
        one_before = sparse.csr_matrix(
            (np.ones(len(follows), np.float32), (follows, follows - 1)), shape=(cohort.n_visits,) * 2
        )
        group = self.groups(cohort)[cohort.patient_of_visit]
        return History(sparse.csr_matrix(one_before @ matrix), _ones(before @ matrix), cohort.visit_number, group)

    def after_visits(self, cohort: Cohort) -> History:
        """The history just after each visit of a cohort: what decides whether the record goes on."""
        before = self.before_visits(cohort)
        matrix = cohort.on(self.vocabulary).matrix()
        return before._replace(previous=matrix, ever=_ones(before.ever + matrix), n_visits=before.n_visits + 1)


def tilt(probability: NDArray[np.float64], log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities whose log-odds are moved by `log_odds`.

    >>> tilt(np.array([0.5, 0.5]), np.log([1.0, 3.0])).round(6).tolist()
    [0.5, 0.75]
    """
    if not log_odds.any():
        return probability
    factor = np.exp(log_odds)
    return probability * factor / (1 - probability + probability * factor)


def _ones(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The same pattern with ones."""
    out = sparse.csr_matrix(matrix)
    out.sum_duplicates()
    out.data = np.ones(len(out.data), dtype=np.float32)
    return out


# ---- which world ----------------------------------------------------------------------------------------------
@lru_cache(maxsize=16)
def make_world(codes: int = 3000, population: str = "base", law_seed: int = LAW_SEED) -> World:
    """The world of a population; another `law_seed` is another structure on the same codes.

    >>> world = make_world(codes=60)
    >>> shifted = make_world(codes=60, population="shifted")
    >>> world.vocabulary == shifted.vocabulary, bool(shifted.code_shift.any())
    (True, True)
    """
    if population not in POPULATIONS:
        raise UsageError(f"population {population!r}: expected one of {', '.join(POPULATIONS)}")
    layout = code_layout(codes)
    structure = draw_structure(layout, law_seed)
    # The rates are those of the base population: a shift moves prevalences, it is not balanced away.
    rates = balance_rates(structure, layout)
    log_odds = moved_log_odds(structure, layout, law_seed)
    if population == "base":
        log_odds = np.zeros_like(log_odds)
    if population == "deep":
        structure = rewire(structure, layout, law_seed)
    return World(layout, structure, rates, log_odds, population, law_seed)


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
            f"a cohort simulated by an earlier version: world {arguments.get('world', 1)} in its card",
            expected=f"world {WORLD}: only then are the true probabilities known",
            remedy="simulate it again with `adapcla simulate`",
        )
    return make_world(arguments["codes"], arguments["population"], arguments["law_seed"] + other_world)


# ---- patients -------------------------------------------------------------------------------------------------
class Moment(NamedTuple):
    """The n-th visit of those patients of a block who have so many, and what was before it."""

    patient: NDArray[np.int64]
    day: NDArray[np.int64]
    history: History
    #: The codes of the visit (patients × codes, 0 or 1).
    codes: sparse.csr_matrix


def draw_visits(world: World, seed: int, block: int) -> Iterator[Moment]:
    """First visits, second visits, … of the patients `block` × BLOCK to (`block` + 1) × BLOCK − 1."""
    # One uniform number for each event that could happen: PCG gives them twice as fast as the usual Philox.
    key = stream_key(seed, f"simulator/{world.population}", world.law_seed, world.n_codes, block)
    rng = np.random.Generator(np.random.PCG64DXSM(key))
    group = np.searchsorted(np.cumsum(GROUP_SHARE)[:-1], rng.random(BLOCK), side="right")
    patient, day = block * BLOCK + np.arange(BLOCK), np.zeros(BLOCK, dtype=np.int64)
    nothing = sparse.csr_matrix((BLOCK, world.n_codes), dtype=np.float32)
    history = History(nothing, nothing, np.zeros(BLOCK, dtype=np.int64), group)
    while len(patient):
        codes = draw_visit(world, history, rng)
        yield Moment(patient, day, history, codes)
        after = History(codes, _ones(history.ever + codes), history.n_visits + 1, history.group)
        returns = np.flatnonzero(rng.random(len(patient)) < world.continues(after))
        patient, history = patient[returns], after.rows(returns)
        day = day[returns] + 1 + np.floor(rng.exponential(_MEAN_GAP_DAYS, len(returns))).astype(np.int64)


def draw_visit(world: World, history: History, rng: np.random.Generator) -> sparse.csr_matrix:
    """The codes of the next visit of each patient (rows × codes, 0 or 1)."""
    n_rows, shown = len(history.group), world.structure.emissions
    rows, events = [], []
    batch = max(1, _CELLS // world.base.shape[1])
    for start in range(0, n_rows, batch):
        probability = world.event_probabilities(history.rows(slice(start, start + batch)))
        happens = np.flatnonzero(rng.random(probability.shape) < probability)
        row, event = np.divmod(happens, probability.shape[1])
        rows.append(row + start)
        events.append(event)
    row, event = np.concatenate(rows), np.concatenate(events)
    own = event < world.n_codes
    # Members that active syndromes show.
    starts = shown.starts(world.structure.n_syndromes)
    begin, end = (starts[event[~own] - world.n_codes + step] for step in (0, 1))
    patient, emission = np.repeat(row[~own], end - begin), expand_ranges(begin, end)
    seen = rng.random(len(emission)) < shown.chance[emission]
    # Every visit holds exactly one reason.
    line = np.cumsum(world.reason_probabilities(history), axis=1)
    reason = (rng.random((n_rows, 1)) * line[:, -1:] >= line).sum(axis=1)
    at = np.concatenate([row[own], patient[seen], np.arange(n_rows)])
    codes = np.concatenate([event[own], shown.target[emission[seen]], world.layout.reasons[reason]])
    return _ones(sparse.csr_matrix((np.ones(len(at), np.float32), (at, codes)), shape=(n_rows, world.n_codes)))


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
    nothing follows upon death. `advance` is called after each block with the number of its patients.

    >>> cohort = simulate(patients=20, codes=60, seed=1)
    >>> cohort.n_patients, cohort.n_codes, cohort.card["source"]
    (20, 60, 'planted')
    """
    if not 1 <= patients <= MOST_PATIENTS:
        raise UsageError(f"{patients} patients: expected 1 to {MOST_PATIENTS:,}")
    world = make_world(codes, population, law_seed)
    blocks = []
    for block in range(-(-patients // BLOCK)):
        n = min(BLOCK, patients - block * BLOCK)
        blocks.append(_patient_by_patient(list(draw_visits(world, seed, block)), n))
        if advance is not None:
            advance(n)
    entries, visit_sizes, visits, days, group = (np.concatenate(pieces) for pieces in zip(*blocks, strict=True))
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


def _patient_by_patient(moments: list[Moment], n: int) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Codes, visit sizes, visits, days and groups of the first `n` patients of a block, patient after patient."""
    patient = np.concatenate([moment.patient for moment in moments]) - moments[0].patient[0]
    order = np.argsort(patient, kind="stable")
    order = order[patient[order] < n]
    codes = sparse.vstack([moment.codes for moment in moments], format="csr")[order]
    days = np.concatenate([moment.day for moment in moments])[order]
    visits = np.bincount(patient[order], minlength=n)
    return codes.indices, np.diff(codes.indptr), visits, days.astype(np.int32), moments[0].history.group[:n]


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
    category[place], share[place] = world.layout.category, world.prevalence(_DRAWN_FOR_SIBLINGS).share
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
