"""The chances of the planted world in closed form, given what is seen of a patient.

Given the history all events of a visit are independent, so that every chance has a closed form:
an event e has the hazard  base[group, e] + Σ over codes of the previous visit + Σ over codes of any earlier visit,
and a code is absent when its own event is and no active syndrome shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Vocabulary
from adapcla.io.simulator.balance import MOST_VISITS, Balance
from adapcla.io.simulator.names import Layout
from adapcla.io.simulator.structure import GROUP_SHARE, N_GROUPS, Structure


class History(NamedTuple):
    """What the law looks at: one row for each moment in a patient's record."""

    #: Codes of the visit before (rows × codes, 0 or 1); empty before a first visit.
    previous: sparse.csr_matrix
    #: Codes of any visit before (rows × codes, 0 or 1).
    ever: sparse.csr_matrix
    #: Number of visits before.
    n_visits: NDArray[np.int64]
    #: Sex and birth band as one number, see `group_of`.
    group: NDArray[np.int64]

    def rows(self, chosen: NDArray[np.int64] | slice) -> History:
        """The history at some of the moments."""
        return History(self.previous[chosen], self.ever[chosen], self.n_visits[chosen], self.group[chosen])


@dataclass(frozen=True, eq=False)
class Chances:
    """A planted world and the chance of everything that can happen in it next."""

    layout: Layout
    structure: Structure
    balance: Balance
    #: What this population adds to the log-odds of each event, at every history; 0 in the base population.
    log_odds: NDArray[np.float64]
    population: str
    law_seed: int

    # ---- what the world is made of ----------------------------------------------------------------------
    @property
    def vocabulary(self) -> Vocabulary:
        """The codes of the world."""
        return self.layout.vocabulary

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.layout.vocabulary)

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """Hazard of each event without any history (groups × events)."""
        return self.balance.hazard[None, :] * self.structure.group_factor

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
    def _onward(self) -> sparse.csr_matrix:
        """Hazards that codes of the previous visit add to events (codes × events)."""
        links = self.structure.progressions
        shape = (self.n_codes, self.n_codes + self.structure.n_syndromes)
        return sparse.csr_matrix((-np.log1p(-links.chance), (links.source, links.target)), shape=shape)

    @cached_property
    def _lasting(self) -> sparse.csr_matrix:
        """Hazards that codes of any earlier visit add to events: to themselves (codes × events)."""
        chronic = np.flatnonzero(self.structure.persistence)
        values = -np.log1p(-self.structure.persistence[chronic])
        return sparse.csr_matrix((values, (chronic, chronic)), shape=self._onward.shape)

    @cached_property
    def _shown(self) -> sparse.csr_matrix:
        """Emissions × codes, 1 at the code that each emission shows."""
        target = self.structure.emissions.target
        return sparse.csr_matrix(
            (np.ones(len(target)), (np.arange(len(target)), target)), shape=(len(target), self.n_codes)
        )

    # ---- truth ------------------------------------------------------------------------------------------
    def history_hazard(self, previous: sparse.csr_matrix, ever: sparse.csr_matrix) -> sparse.csr_matrix:
        """What the history adds to the hazard of each event (rows × events)."""
        return sparse.csr_matrix(previous @ self._onward + ever @ self._lasting)

    def event_chances(self, history: History) -> NDArray[np.float64]:
        """The chance of each event at the next visit (rows × events), reasons for a visit left out."""
        hazard = self.base[history.group] + self.history_hazard(history.previous, history.ever).toarray()
        return tilted(-np.expm1(-hazard), self.log_odds)

    def next_visit(self, history: History, batch: int = 2048) -> NDArray[np.float64]:
        """The chance of each code at the next visit, given that there is one (rows × codes)."""
        out = np.empty((len(history.group), self.n_codes))
        for start in range(0, len(out), batch):
            part = history.rows(slice(start, start + batch))
            out[start : start + batch] = self._next_visit(part)
        return out

    def _next_visit(self, history: History) -> NDArray[np.float64]:
        events = self.event_chances(history)
        shown = self.structure.emissions
        missed = np.log1p(-events[:, self.n_codes :][:, shown.source] * shown.chance)
        chances = -np.expm1(np.log1p(-events[:, : self.n_codes]) + missed @ self._shown)
        chances[:, self.layout.reasons] = self.reason_chances(history)
        return chances

    def reason_chances(self, history: History) -> NDArray[np.float64]:
        """The chance of each reason for the next visit (rows × reasons); they sum to 1."""
        reasons = self.layout.reasons
        last = history.previous[:, reasons]
        count = np.asarray(last.sum(axis=1))
        following = np.asarray(last @ self.structure.next_reason) / np.maximum(count, 1)
        return np.where(count > 0, following, self.structure.first_reason[history.group])

    def continues(self, history: History) -> NDArray[np.float64]:
        """The chance that the record goes on after these visits: 1 before the first, 0 after the twentieth."""
        log_odds = np.concatenate([[np.inf], self.balance.return_log_odds, [-np.inf]])
        level = log_odds[np.minimum(history.n_visits, MOST_VISITS)]
        return 1 / (1 + np.exp(-(level + history.previous @ self.structure.return_weight)))

    def together(self, history: History, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """The chance that code first[i] and code second[i] share the next visit (rows × pairs)."""
        one, two = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
        events, single = self.event_chances(history), self.next_visit(history)
        shows = sparse.csr_matrix(
            (self.structure.emissions.chance, (self.structure.emissions.source, self.structure.emissions.target)),
            shape=(self.structure.n_syndromes, self.n_codes),
        )
        neither = (1 - events[:, one]) * (1 - events[:, two])
        either = _either(shows[:, one].tocsc(), shows[:, two].tocsc())  # syndromes × pairs
        entries = either.tocoo()
        missed = np.log1p(-events[:, self.n_codes :][:, entries.row] * entries.data)
        gather = sparse.csr_matrix(
            (np.ones(len(entries.col)), (np.arange(len(entries.col)), entries.col)), shape=(len(entries.col), len(one))
        )
        joint = single[:, one] + single[:, two] - 1 + neither * np.exp(missed @ gather)
        # Reasons are drawn apart from everything else, and only one of them.
        reason_one, reason_two = np.isin(one, self.layout.reasons), np.isin(two, self.layout.reasons)
        joint = np.where(reason_one ^ reason_two, single[:, one] * single[:, two], joint)
        joint = np.where(reason_one & reason_two, 0.0, joint)
        return np.where(one == two, single[:, one], joint)

    @cached_property
    def first_visit(self) -> NDArray[np.float64]:
        """The chance of each code at the first visit of an average patient."""
        return GROUP_SHARE @ self.next_visit(self.newcomers)

    @property
    def newcomers(self) -> History:
        """The history before the first visit of one patient of each group."""
        nothing = sparse.csr_matrix((N_GROUPS, self.n_codes), dtype=np.float32)
        return History(nothing, nothing, np.zeros(N_GROUPS, dtype=np.int64), np.arange(N_GROUPS))


def tilted(chance: NDArray[np.float64], log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances whose log-odds are moved by `log_odds`.

    >>> tilted(np.array([0.5, 0.5]), np.log([1.0, 3.0])).round(6).tolist()
    [0.5, 0.75]
    """
    if not log_odds.any():
        return chance
    factor = np.exp(log_odds)
    return chance * factor / (1 - chance + chance * factor)


def _either(one: sparse.csc_matrix, two: sparse.csc_matrix) -> sparse.csr_matrix:
    """1 − (1 − a)(1 − b), element by element."""
    return sparse.csr_matrix(one + two - one.multiply(two))
