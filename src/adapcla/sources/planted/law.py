"""The law of the planted world: the exact chance of every code at the next visit, given what is seen of a patient.

Given the history all events of a visit are independent, so that every chance has a closed form:
an event e has the hazard  base[group, e] + Σ over codes of the previous visit + Σ over codes of any earlier visit,
and a code is absent when its own event is and no active syndrome shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.errors import InputError, UsageError
from adapcla.records import Cohort, Vocabulary
from adapcla.records.cohort import ranges, starts_of
from adapcla.sources.planted.balance import MOST_VISITS, Balance
from adapcla.sources.planted.names import Layout
from adapcla.sources.planted.structure import BIRTH_BANDS, GROUP_SHARE, N_GROUPS, SEXES, Structure

Visits = Sequence[Iterable[str]]
#: Names of the patient attributes that the law looks at.
SEX, BIRTH_BAND = "sex", "birth_band"


class History(NamedTuple):
    """What the law looks at: one row a moment in a patient's record."""

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


class PlantedPair(NamedTuple):
    """A rare code and the partner that its syndrome brings along, with the truth about them at first visits."""

    code: str
    partner: str
    #: Chance of both in one first visit.
    together: float
    #: That chance, divided by what it would be if they came independently.
    lift: float


class Progression(NamedTuple):
    """A code that, present at a visit, brings another at the next with this chance, whatever else there is."""

    code: str
    leads_to: str
    chance: float


def group_of(sex: NDArray[np.int64], band: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group number of a sex and a birth band, both by position.

    >>> group_of(np.array([0, 1]), np.array([2, 0])).tolist()
    [2, 6]
    """
    return (np.asarray(sex) * len(BIRTH_BANDS) + np.asarray(band)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Law:
    """A planted world whose every probability is known."""

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
        return sparse.csr_matrix((np.ones(len(target)), (np.arange(len(target)), target)), shape=(len(target), self.n_codes))

    # ---- histories --------------------------------------------------------------------------------------
    def groups(self, cohort: Cohort) -> NDArray[np.int64]:
        """The group of each patient of a cohort that carries the planted attributes."""
        for name in (SEX, BIRTH_BAND):
            if name not in cohort.attributes or (np.asarray(cohort.attributes[name].values) < 0).any():
                raise InputError(
                    f"patients without the attribute {name!r}",
                    expected="sex and birth band of every patient: the planted law depends on them",
                    remedy="use a cohort of `adapcla simulate`",
                )
        return group_of(*(np.asarray(cohort.attributes[name].values, dtype=np.int64) for name in (SEX, BIRTH_BAND)))

    def before_visits(self, cohort: Cohort) -> History:
        """The history before each visit of a cohort, row for row as in `cohort.matrix()`."""
        matrix = cohort.on(self.vocabulary).matrix()
        first = np.zeros(cohort.n_visits, dtype=bool)
        first[np.asarray(cohort.patient_starts[:-1])] = True
        number = np.arange(cohort.n_visits) - np.asarray(cohort.patient_starts)[cohort.patient_of_visit]
        return History(
            _shifted_rows(matrix, ~first), self._ever(matrix, cohort), number, self.groups(cohort)[cohort.patient_of_visit]
        )

    def after_visits(self, cohort: Cohort) -> History:
        """The history just after each visit of a cohort: what decides whether the record goes on."""
        before = self.before_visits(cohort)
        matrix = cohort.on(self.vocabulary).matrix()
        return before._replace(previous=matrix, ever=_ones(before.ever + matrix), n_visits=before.n_visits + 1)

    def _ever(self, matrix: sparse.csr_matrix, cohort: Cohort) -> sparse.csr_matrix:
        """Codes of any earlier visit, by pairing each visit with every later one of its patient."""
        stop = np.asarray(cohort.patient_starts)[1:][cohort.patient_of_visit]
        visit = np.arange(cohort.n_visits)
        later = ranges(visit + 1, stop)
        earlier = np.repeat(visit, stop - visit - 1)
        pairs = sparse.csr_matrix((np.ones(len(later), np.float32), (later, earlier)), shape=(cohort.n_visits,) * 2)
        return _ones(pairs @ matrix)

    def history(self, records: Sequence[Visits], sex: Sequence[str], birth_band: Sequence[str]) -> History:
        """The history of patients given as lists of visits of code strings (a patient may have none yet)."""
        visits = [sorted(set(visit)) for record in records for visit in record]
        positions = self.vocabulary.positions([code for visit in visits for code in visit])
        if (positions < 0).any():
            raise InputError("a code outside the planted vocabulary", remedy="use codes of `law.vocabulary`")
        if not set(sex) <= set(SEXES) or not set(birth_band) <= set(BIRTH_BANDS):
            raise UsageError(f"expected sex in {SEXES} and birth band in {BIRTH_BANDS}")
        n_visits = np.array([len(record) for record in records], dtype=np.int64)
        starts = starts_of(np.array([len(visit) for visit in visits], dtype=np.int64))
        matrix = sparse.csr_matrix((np.ones(len(positions), np.float32), positions, starts), shape=(len(visits), self.n_codes))
        owner = sparse.csr_matrix(
            (np.ones(len(visits), np.float32), np.arange(len(visits)), starts_of(n_visits)),
            shape=(len(records), len(visits)),
        )
        last = sparse.csr_matrix(
            (np.ones(int((n_visits > 0).sum()), np.float32), (np.cumsum(n_visits) - 1)[n_visits > 0], starts_of(np.minimum(n_visits, 1))),
            shape=owner.shape,
        )  # fmt: skip
        group = group_of(np.array([SEXES.index(s) for s in sex]), np.array([BIRTH_BANDS.index(b) for b in birth_band]))
        return History(_ones(last @ matrix), _ones(owner @ matrix), n_visits, group)

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

    def probability(self, code: str, visits: Visits = (), sex: str = SEXES[0], birth_band: str = BIRTH_BANDS[2]) -> float:
        """The chance that a patient with these visits has the code at the next one."""
        chances = self.next_visit(self.history([visits], [sex], [birth_band]))
        return float(chances[0, self.vocabulary.index[code]])

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

    def pairs(self) -> list[PlantedPair]:
        """Every planted pair of a rare code and a partner, with its truth at first visits, highest lift first."""
        shown, rare = self.structure.emissions, self.structure.is_rare
        starts = shown.starts(self.structure.n_syndromes)
        size = starts[shown.source + 1] - starts[shown.source]
        one = np.repeat(np.arange(len(rare)), size)
        two = ranges(starts[shown.source], starts[shown.source + 1])
        chosen = rare[one] & ~rare[two]
        code, partner = shown.target[one[chosen]], shown.target[two[chosen]]
        both = GROUP_SHARE @ self.together(self.newcomers, code, partner)
        lift = both / (self.first_visit[code] * self.first_visit[partner])
        tokens = self.vocabulary.tokens
        order = np.argsort(-lift, kind="stable")
        return [PlantedPair(tokens[code[i]], tokens[partner[i]], float(both[i]), float(lift[i])) for i in order]

    def progressions(self) -> list[Progression]:
        """Every planted progression from a code to a code, strongest first."""
        links, tokens = self.structure.progressions, self.vocabulary.tokens
        direct = np.flatnonzero(links.target < self.n_codes)
        order = direct[np.argsort(-links.chance[direct], kind="stable")]
        return [Progression(tokens[links.source[i]], tokens[links.target[i]], float(links.chance[i])) for i in order]


def tilted(chance: NDArray[np.float64], log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances whose log-odds are moved by `log_odds`.

    >>> tilted(np.array([0.5, 0.5]), np.log([1.0, 3.0])).tolist()
    [0.5, 0.75]
    """
    if not log_odds.any():
        return chance
    factor = np.exp(log_odds)
    return chance * factor / (1 - chance + chance * factor)


def _ones(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The same pattern with ones."""
    out = sparse.csr_matrix(matrix)
    out.sum_duplicates()
    out.data = np.ones(len(out.data), dtype=np.float32)
    return out


def _shifted_rows(matrix: sparse.csr_matrix, follows: NDArray[np.bool_]) -> sparse.csr_matrix:
    """Row v − 1 at row v where visit v follows another of its patient, an empty row elsewhere."""
    where = np.flatnonzero(follows)
    pick = sparse.csr_matrix((np.ones(len(where), np.float32), (where, where - 1)), shape=(matrix.shape[0],) * 2)
    return sparse.csr_matrix(pick @ matrix)


def _either(one: sparse.csc_matrix, two: sparse.csc_matrix) -> sparse.csr_matrix:
    """1 − (1 − a)(1 − b), element by element."""
    return sparse.csr_matrix(one + two - one.multiply(two))
