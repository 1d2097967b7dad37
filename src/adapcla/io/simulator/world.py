"""A simulated world: the true probability of everything that can happen next.

Given a patient's history, all events of the next visit are independent, so that every probability has a closed form:
an event e has the hazard  base[group, e] + Σ over codes of the previous visit + Σ over codes of any earlier visit,
and a code is absent when its own event is and no active syndrome shows it.

It is the ground truth of tests and analyses; a world of another seed is their counter-example: the same codes, names
and target prevalences with another structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort, Vocabulary
from adapcla.data.ragged import expand_ranges
from adapcla.errors import InputError, UsageError
from adapcla.io.simulator.codes import CodeLayout, code_layout
from adapcla.io.simulator.structure import (
    BIRTH_BANDS,
    GROUP_SHARE,
    MOST_VISITS,
    N_GROUPS,
    Balance,
    Structure,
    balance_rates,
    draw_structure,
    moved_log_odds,
    rewire,
)

#: The populations of a world: as first drawn; some prevalences moved; prevalences and structure moved.
POPULATIONS = ("base", "shifted", "deep")
LAW_SEED = 7
#: Names of the patient attributes that the probabilities depend on.
SEX, BIRTH_BAND = "sex", "birth_band"


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
    def history_hazard(self, history: History) -> sparse.csr_matrix:
        """What the history adds to the hazard of each event (rows × events)."""
        return sparse.csr_matrix(history.previous @ self._from_previous + history.ever @ self._from_earlier)

    def event_probabilities(self, history: History) -> NDArray[np.float64]:
        """The probability of each event at the next visit (rows × events), reasons for a visit left out."""
        out = self._at_first[history.group]
        added = self.history_hazard(history).tocoo()
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
