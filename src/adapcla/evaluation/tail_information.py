"""What a cohort, from anywhere, knows of the codes that rare codes stand with: nats that it gains on test visits.

A rare code t turns the share q(c) of visits that hold code c into P(c | t) = (n(t, c) + a·q(c)) / (n(t) + a), all
counted in the synthetic visits. A case is a test visit that holds t. Its gain is the log-likelihood of its other codes,
present and absent, under P(· | t), less that under independence, q: the sum over all codes c but t. Shares that are
right gain, shares that are not lose, and without knowledge the gain is 0. The strength a of the smoothing is chosen
for each band of counts where it gains most inside the synthetic cohort, between patients; a = ∞ is among the choices,
so a cohort without structure chooses to know nothing. Of a code that the cohort never wrote it says nothing: 0.

`tail_information_previous` does the same for the codes of the patient's previous visit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.fingerprints import code_keys, visit_fingerprints
from adapcla.data.prevalence import INFORMATION_BANDS
from adapcla.data.ragged import segment_sums
from adapcla.evaluation.bootstrap import PatientSums, bootstrap_sums, n_draws, percentile_interval
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import INFINITE, Metric, RatioMetric
from adapcla.evaluation.references import some_patients

#: Strengths of the smoothing to choose from, strongest first, so that equal gains choose to know less.
STRENGTHS = (np.inf, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
#: Parts of the synthetic patients; each is evaluated by the others.
FOLDS = 5

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Places(NamedTuple):
    """Where rare codes and the codes beside them stand: two matrices of places × codes, and the patients."""

    #: Places × rare codes.
    holders: sparse.csr_matrix
    #: Places × all codes.
    beside: sparse.csr_matrix
    patient: Ints

    @classmethod
    def of(cls, cohort: Cohort, rare: Ints, previous: bool) -> _Places:
        """The visits, or (`previous`) the visits after another one with the codes of that one beside them."""
        visits = cohort.matrix().astype(np.float64)
        if not previous:
            return cls(visits[:, rare], visits, cohort.patient_of_visit)
        first = cohort.visits_with_next
        return cls(visits[first + 1][:, rare], visits[first], cohort.patient_of_visit[first])

    def at(self, rows: Ints) -> _Places:
        """Some of the places."""
        return _Places(self.holders[rows], self.beside[rows], self.patient[rows])


class _Counts(NamedTuple):
    """How often each rare code stands at a place, and with whom."""

    #: Rare codes × all codes, nothing where a code would stand with itself.
    together: sparse.csr_matrix
    alone: Floats

    @classmethod
    def of(cls, places: _Places, rare: Ints) -> _Counts:
        """The counts of some places."""
        together = (places.holders.T @ places.beside).tocsr()
        row = np.repeat(np.arange(len(rare)), np.diff(together.indptr))
        together.data[together.indices == rare[row]] = 0.0
        together.eliminate_zeros()
        together.sort_indices()
        return cls(together, np.asarray(places.holders.sum(axis=0)).ravel())

    def less(self, part: _Counts) -> _Counts:
        """The counts without those of a part of the places."""
        rest = (self.together - part.together).tocsr()
        rest.eliminate_zeros()
        rest.sort_indices()
        return _Counts(rest, self.alone - part.alone)


class _Cases(NamedTuple):
    """Rare codes at places: one row a case, and one entry for each code that stands with it."""

    #: Row of the rare code, and patient, of each case.
    rare: Ints
    patient: Ints
    #: Case and code of each entry.
    case: Ints
    code: Ints

    @classmethod
    def of(cls, places: _Places, rare: Ints) -> _Cases:
        """Every rare code of every place."""
        held = places.holders.tocoo()
        beside = places.beside[held.row]
        case = np.repeat(np.arange(len(held.row), dtype=np.int64), np.diff(beside.indptr))
        other = beside.indices != rare[held.col[case]]
        return cls(
            held.col.astype(np.int64), places.patient[held.row], case[other], beside.indices[other].astype(np.int64)
        )


@dataclass(frozen=True, eq=False)
class _Knowledge:
    """P(c | t) of a cohort before smoothing: counts of rare codes and the share of places that hold each code."""

    rare: Ints
    counts: _Counts
    share: Floats

    def gains(self, cases: _Cases, strengths: Sequence[float]) -> Iterator[Floats]:
        """The gain of each case, in nats, for one strength of the smoothing after another."""
        together = self.counts.together
        row = np.repeat(np.arange(len(self.rare)), np.diff(together.indptr))
        beside = self.share[together.indices]
        known = np.flatnonzero(self.share[cases.code] > 0)  # Of other codes the cohort says nothing.
        case, share = cases.case[known], self.share[cases.code[known]]
        rare = cases.rare[case]
        times, independent = _look_up(together, rare, cases.code[known]), np.log1p(-share) - np.log(share)
        for strength in strengths:
            kept = 1.0 / (1.0 + self.counts.alone / strength)  # What is left of q(c) in P(c | t) where they never met.
            base = kept[row] * beside
            gained = np.log1p(-base - kept[row] * together.data / strength) - np.log1p(-base)
            absent = self._absent(kept) + np.bincount(row, gained, minlength=len(self.rare))
            chance = kept[rare] * (share + times / strength)
            odds = np.log(chance) - np.log1p(-chance) + independent
            yield absent[cases.rare] + np.bincount(case, odds, minlength=len(cases.rare))

    def _absent(self, kept: Floats) -> Floats:
        """The gain of each rare code on a place without any other code, had it met none: the sum over c but t."""
        share = self.share[self.share > 0]
        values, where = np.unique(kept, return_inverse=True)
        nothing = np.log1p(-share).sum()
        sums = np.array([np.log1p(-value * share).sum() - nothing for value in values])
        own = self.share[self.rare]
        return sums[where] - (np.log1p(-kept * own) - np.log1p(-own))


def _look_up(counts: sparse.csr_matrix, rows: Ints, columns: Ints) -> Floats:
    """The entries of a sparse matrix with sorted rows at some positions.

    >>> _look_up(sparse.csr_matrix([[0, 2], [3, 0]]), np.array([0, 0, 1]), np.array([1, 0, 0])).tolist()
    [2.0, 0.0, 3.0]
    """
    width = counts.shape[1]
    keys = np.repeat(np.arange(counts.shape[0], dtype=np.int64), np.diff(counts.indptr)) * width + counts.indices
    wanted = rows * width + columns
    where = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(len(wanted))
    return np.where(keys[where] == wanted, counts.data[where], 0.0)


def _shares(places: _Places) -> Floats:
    """The share of places that hold each code; of a code at every place half a place is left in doubt."""
    n = max(places.beside.shape[0], 1)
    return np.minimum(np.asarray(places.beside.sum(axis=0)).ravel() / n, 1.0 - 0.5 / n)


def _folds(cohort: Cohort) -> Ints:
    """The fold of each patient, by what the record holds: patients with the same codes are never in two folds.

    A generator may repeat itself; were a repeat in another fold, knowing it by heart would look like knowledge.
    """
    visits = visit_fingerprints(cohort, code_keys(cohort.vocabulary))[:, 0]
    return (segment_sums(visits, np.asarray(cohort.patient_starts)) % np.uint64(FOLDS)).astype(np.int64)


def _strengths(cohort: Cohort, places: _Places, knowledge: _Knowledge, band: Ints) -> Floats:
    """The strength of the smoothing of each rare code: that of its band which gains most between the folds."""
    totals = np.zeros((len(STRENGTHS), int(band.max(initial=0)) + 1))
    fold = _folds(cohort)[places.patient]
    for k in range(FOLDS):
        inside = places.at(np.flatnonzero(fold == k))
        rest = knowledge.counts.less(_Counts.of(inside, knowledge.rare))
        others = _Knowledge(knowledge.rare, rest, knowledge.share)
        cases = _Cases.of(inside, knowledge.rare)
        for i, gains in enumerate(others.gains(cases, STRENGTHS)):
            totals[i] += np.bincount(band[cases.rare], gains, minlength=totals.shape[1])
    return np.array(STRENGTHS)[totals.argmax(axis=0)][band]


def information(cohort: Cohort, test: Cohort, counts: Ints, previous: bool = False) -> tuple[_Cases, Floats]:
    """The cases of the test patients and what the cohort gains on each, for codes rare by these training counts.

    >>> seen = Cohort.of([[["A", "T"]], [["A", "T"], ["B"]], [["B"]]])
    >>> cases, gains = information(seen, seen, np.array([1000, 1000, 50]))
    >>> cases.patient.tolist(), cases.code.tolist()
    ([0, 1], [0, 0])
    """
    last = max(high for _, high in INFORMATION_BANDS.values())
    rare = np.flatnonzero((counts > 0) & (counts <= last))
    places = _Places.of(cohort, rare, previous)
    knowledge = _Knowledge(rare, _Counts.of(places, rare), _shares(places))
    lows = [low for low, _ in INFORMATION_BANDS.values()]
    band = np.searchsorted(lows, counts[rare], side="right") - 1
    strength = _strengths(cohort, places, knowledge, band)
    cases = _Cases.of(_Places.of(test, rare, previous), rare)
    gains, chosen = np.zeros(len(cases.rare)), np.unique(strength).tolist()
    for value, all_gains in zip(chosen, knowledge.gains(cases, chosen), strict=True):
        gains = np.where(strength[cases.rare] == value, all_gains, gains)
    return cases._replace(rare=rare[cases.rare]), gains


class _Gains(NamedTuple):
    """Gains and cases of each test patient with a case, patients × strata."""

    gains: Floats
    cases: Floats


#: Strata: all rare codes, and the bands of training counts.
_STRATA = (ALL, *INFORMATION_BANDS)


def _gains(comparison: Comparison, cohort: Cohort, previous: bool) -> _Gains:
    """What a cohort gains on the cases of each test patient."""
    counts = comparison.train.visit_counts
    cases, gains = information(cohort, comparison.test, counts, previous)
    count = counts[cases.rare]
    bands = [(count >= low) & (count <= high) for low, high in INFORMATION_BANDS.values()]
    inside = np.stack([np.ones(len(count), dtype=bool), *bands], axis=1).astype(np.float64)
    row = np.unique(cases.patient, return_inverse=True)[1]
    shape = int(row.max(initial=-1)) + 1, inside.shape[1]
    sums = _Gains(np.zeros(shape), np.zeros(shape))
    np.add.at(sums.gains, row, inside * gains[:, None])
    np.add.at(sums.cases, row, inside)
    return sums


def _synthetic_gains(comparison: Comparison, previous: bool) -> _Gains:
    """What the synthetic patients gain."""
    return _gains(comparison, comparison.synthetic, previous)


def _real_gains(comparison: Comparison, previous: bool) -> _Gains:
    """What as many training patients gain, or all of them where more were generated."""
    real = some_patients(comparison.train, comparison.synthetic.n_patients, comparison.seed)
    return _gains(comparison, real, previous)


class TailInformation(RatioMetric):
    """Log-likelihood that the neighbours of a rare code in synthetic visits gain on a test visit with that code.

    The mean gain a case, in nats, over all rare codes and by band of training counts; n is the cases. The interval
    resamples the test patients.

    >>> cohort = Cohort.of([[["A", "T", f"N{i}"]] for i in range(20)] + [[["B", f"M{i}"]] for i in range(60)])
    >>> score = TailInformation().compute(Comparison.of(cohort, cohort, cohort))["11-30"]
    >>> score.value > 1.5, score.n
    (True, 40)
    """

    key, suite, goal, bounds, unit = "tail_information", "tail", "up", INFINITE, "nats"
    trained = of_test = by_domain = True
    previous = False

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Gains and cases of each test patient."""
        made = comparison.once(_synthetic_gains, self.previous)
        reason = "no test patient has such a code after another visit" if self.previous else _NO_CASE
        return {name: PatientSums(made.gains[:, k], made.cases[:, k], reason) for k, name in enumerate(_STRATA)}


class TailInformationPrevious(TailInformation):
    """The same gain on the codes of the visit before the one with the rare code."""

    key, previous = "tail_information_previous", True


_NO_CASE = "no test visit holds such a code"


class TailInformationShare(Metric):
    """That gain divided by the gain of as many real training patients: 0 is chance, 1 is real.

    There is no value where real patients gain nothing that stands out of the draw of the test patients.

    >>> cohort = Cohort.of([[["A", "T", f"N{i}"]] for i in range(20)] + [[["B", f"M{i}"]] for i in range(60)])
    >>> TailInformationShare().compute(Comparison.of(cohort, cohort, cohort))["11-30"].value
    1.0
    """

    key, suite, goal, bounds, unit = "tail_information_share", "tail", "up", INFINITE, "share of real"
    trained = by_domain = True
    previous = False

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The share over all rare codes and by band of training counts; n is the cases."""
        comparison = comparison.sample
        made, real = (comparison.once(gains, self.previous) for gains in (_synthetic_gains, _real_gains))
        sums = bootstrap_sums(np.hstack([made.gains, real.gains]), comparison.seed, n_draws(comparison))
        out = {}
        for k, name in enumerate(_STRATA):
            n, top, bottom = int(made.cases[:, k].sum()), made.gains[:, k].sum(), real.gains[:, k].sum()
            drawn = sums[:, [k, k + len(_STRATA)]]
            out[name] = _share_of_real(float(top), float(bottom), n, drawn, comparison.intervals)
        return out


class TailInformationPreviousShare(TailInformationShare):
    """The gain on the visit before divided by that of as many real training patients."""

    key, previous = "tail_information_previous_share", True


def _share_of_real(top: float, bottom: float, n: int, drawn: Floats, intervals: bool) -> Score:
    """top / bottom with its interval, or why real patients are no measure."""
    if n == 0:
        return Missing(_NO_CASE).score
    if bottom <= 0 or percentile_interval(drawn[:, 1])[0] <= 0:
        return Missing("as many real patients gain nothing on these codes", n).score
    if not intervals:
        return Score(top / bottom, n)
    # The few draws in which real patients gain nothing say nothing of the share: they count as the share itself.
    shares = np.full(len(drawn), top / bottom)
    np.divide(drawn[:, 0], drawn[:, 1], out=shares, where=drawn[:, 1] > 0)
    return Score(top / bottom, n, *percentile_interval(shares))
