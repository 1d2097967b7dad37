"""The law of the planted world: histories of patients, the planted pairs and progressions, true prevalences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort, Prevalence
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.errors import InputError, UsageError
from adapcla.io.simulator.chances import Chances, History
from adapcla.io.simulator.draw import Sampler
from adapcla.io.simulator.structure import BIRTH_BANDS, GROUP_SHARE, SEXES

Visits = Sequence[Iterable[str]]
#: Names of the patient attributes that the law looks at.
SEX, BIRTH_BAND = "sex", "birth_band"
_BATCHES = 20


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


class TruePrevalence(NamedTuple):
    """The share of visits with each code under the law, and its standard error from the finite draw behind it."""

    prevalence: Prevalence
    error: NDArray[np.float64]


def group_of(sex: NDArray[np.int64], band: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group number of a sex and a birth band, both by position.

    >>> group_of(np.array([0, 1]), np.array([2, 0])).tolist()
    [2, 6]
    """
    return (np.asarray(sex) * len(BIRTH_BANDS) + np.asarray(band)).astype(np.int64)


class Law(Chances):
    """A planted world whose every probability is known."""

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
        return History(
            _shifted_rows(matrix, cohort.visit_number > 0),
            self._ever(matrix, cohort),
            cohort.visit_number,
            self.groups(cohort)[cohort.patient_of_visit],
        )

    def after_visits(self, cohort: Cohort) -> History:
        """The history just after each visit of a cohort: what decides whether the record goes on."""
        before = self.before_visits(cohort)
        matrix = cohort.on(self.vocabulary).matrix()
        return before._replace(previous=matrix, ever=_ones(before.ever + matrix), n_visits=before.n_visits + 1)

    def _ever(self, matrix: sparse.csr_matrix, cohort: Cohort) -> sparse.csr_matrix:
        """Codes of any earlier visit, by pairing each visit with every later one of its patient."""
        visit, last = np.arange(cohort.n_visits), cohort.last_visits[cohort.patient_of_visit]
        later, earlier = expand_ranges(visit + 1, last + 1), np.repeat(visit, last - visit)
        pairs = sparse.csr_matrix((np.ones(len(later), np.float32), (later, earlier)), shape=(cohort.n_visits,) * 2)
        return _ones(pairs @ matrix)

    def history(self, records: Sequence[Visits], sex: Sequence[str], birth_band: Sequence[str]) -> History:
        """The history of patients given as lists of visits of code strings (a patient may have none yet)."""
        visits = [sorted(set(visit)) for record in records for visit in record]
        positions = self.vocabulary.positions([code for visit in visits for code in visit], complete=True)
        if not set(sex) <= set(SEXES) or not set(birth_band) <= set(BIRTH_BANDS):
            raise UsageError(f"expected sex in {SEXES} and birth band in {BIRTH_BANDS}")
        n_visits = np.array([len(record) for record in records], dtype=np.int64)
        starts = starts_from_sizes(np.array([len(visit) for visit in visits], dtype=np.int64))
        matrix = sparse.csr_matrix(
            (np.ones(len(positions), np.float32), positions, starts), shape=(len(visits), self.n_codes)
        )
        owner = sparse.csr_matrix(
            (np.ones(len(visits), np.float32), np.arange(len(visits)), starts_from_sizes(n_visits)),
            shape=(len(records), len(visits)),
        )
        has = np.flatnonzero(n_visits)
        last = sparse.csr_matrix(
            (np.ones(len(has), np.float32), (has, np.cumsum(n_visits)[has] - 1)), shape=(len(records), len(visits))
        )
        group = group_of(np.array([SEXES.index(s) for s in sex]), np.array([BIRTH_BANDS.index(b) for b in birth_band]))
        return History(_ones(last @ matrix), _ones(owner @ matrix), n_visits, group)

    def probability(
        self, code: str, visits: Visits = (), sex: str = SEXES[0], birth_band: str = BIRTH_BANDS[2]
    ) -> float:
        """The chance that a patient with these visits has the code at the next one."""
        chances = self.next_visit(self.history([visits], [sex], [birth_band]))
        return float(chances[0, self.vocabulary.index[code]])

    def pairs(self) -> list[PlantedPair]:
        """Every planted pair of a rare code and a partner, with its truth at first visits, highest lift first."""
        shown, rare = self.structure.emissions, self.structure.is_rare
        starts = shown.starts(self.structure.n_syndromes)
        size = starts[shown.source + 1] - starts[shown.source]
        one = np.repeat(np.arange(len(rare)), size)
        two = expand_ranges(starts[shown.source], starts[shown.source + 1])
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

    def prevalence(self, patients: int = 8000, seed: int = 1) -> TruePrevalence:
        """The true share of visits with each code.

        First visits are exact. Histories of later visits are drawn, but the codes are not: their chances are averaged,
        so that even a code of a few visits in a million has a usable value.
        """
        sampler, first = Sampler(self, seed), self.first_visit
        shares = []
        for lot in np.array_split(np.arange(patients, dtype=np.int64), _BATCHES):
            sums, n_later = np.zeros(self.n_codes), 0
            for history in sampler.later_visits(lot):
                sums += self.next_visit(history).sum(axis=0)
                n_later += len(history.group)
            shares.append((len(lot) * first + sums) / (len(lot) + n_later))
        mean = np.mean(shares, axis=0)
        error = np.std(shares, axis=0, ddof=1) / np.sqrt(_BATCHES)
        return TruePrevalence(Prevalence(self.vocabulary, mean), error)


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
