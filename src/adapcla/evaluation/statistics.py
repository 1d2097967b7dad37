"""Counts that add up over patients: codes, pairs of codes in a visit and across two visits, and sorted values.

Each is counted once for a cohort and read by many metrics. `+` joins the counts of two parts of a cohort, `-` takes a
part away again, which is how the jackknife leaves patients out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts, visits_with_neighbours
from adapcla.evaluation.comparison import TrainingSummary

Floats = NDArray[np.float64]
#: Neighbours of a code that are compared.
TOP = 20
#: Quantiles that two distributions are compared at.
N_QUANTILES = 1_000


class Sums:
    """Counts that add up field by field; a dataclass of numbers, arrays and sparse matrices.

    >>> @dataclass
    ... class Visits(Sums):
    ...     n: int
    >>> (Visits(3) + Visits(4) - Visits(1)).n
    6
    """

    of_values: ClassVar[bool] = False
    sampled: ClassVar[bool] = False

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def _combine(self, other: Self, sign: int) -> Self:
        """The sums or differences of all fields."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return type(self)(*(_tidy(one + two if sign > 0 else one - two) for one, two in pairs))


def _tidy(value: Any) -> Any:
    """The value; of a sparse matrix without stored zeros and in order, as everything that reads it expects."""
    if sparse.issparse(value):
        value.eliminate_zeros()
        value.sort_indices()
    return value


@dataclass(frozen=True, eq=False)
class CodeCounts(Sums):
    """Visits that hold each code, and visits.

    >>> counts = CodeCounts.count(Cohort.of([[["A", "B"], ["A"]]]))
    >>> counts.codes.tolist(), counts.share.tolist()
    ([2, 1], [1.0, 0.5])
    """

    codes: NDArray[np.int64]
    visits: int

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary | None = None) -> CodeCounts:
        """The counts of a cohort."""
        return cls(cohort.visit_counts.astype(np.int64), cohort.n_visits)

    @property
    def share(self) -> Floats:
        """Prevalence."""
        return self.codes / max(self.visits, 1)

    @property
    def log_share(self) -> Floats:
        """Log prevalence with half a visit added, so that a code that is absent has a finite place."""
        return np.log((self.codes + 0.5) / (self.visits + 1.0))


#: Lengths from which all count as one.
LONGEST = 128


@dataclass(frozen=True, eq=False)
class Sizes(Sums):
    """How many patients have each number of visits, and visits each number of codes; the last count has no upper end.

    >>> sizes = Sizes.count(Cohort.of([[["A", "B"], ["A"]]]))
    >>> sizes.visits_per_patient[:3].tolist(), sizes.codes_per_visit[:3].tolist()
    ([0, 0, 1], [0, 1, 1])
    """

    visits_per_patient: NDArray[np.int64]
    codes_per_visit: NDArray[np.int64]

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary | None = None) -> Sizes:
        """The counts of a cohort."""
        lengths = (cohort.visits_per_patient, cohort.codes_per_visit)
        visits, codes = (np.bincount(np.minimum(some, LONGEST), minlength=LONGEST + 1) for some in lengths)
        return cls(visits, codes)


@dataclass(frozen=True, eq=False)
class PairCounts(Sums):
    """How often two codes are in one visit, with the set and the contexts that follow from it.

    >>> counts = PairCounts.count(Cohort.of([[["A", "B"], ["C"]]]))
    >>> counts.together.toarray().tolist(), counts.contexts.exists.tolist()
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [True, True, False])
    """

    #: Codes × codes, the number of visits that hold both; symmetric, with an empty diagonal.
    together: sparse.csr_matrix
    #: Visits of two codes or more that hold each code.
    holders: NDArray[np.int64]
    visits: int

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary | None = None) -> PairCounts:
        """The counts of a cohort."""
        return cls(cooccurrence_counts(cohort), visits_with_neighbours(cohort), cohort.n_visits)

    @property
    def places(self) -> int:
        """How many places a pair could have stood in."""
        return self.visits

    @cached_property
    def pairs(self) -> PairSet:
        """The pairs that occur."""
        return PairSet.of(self.together)

    @cached_property
    def contexts(self) -> Contexts:
        """The neighbours of all codes."""
        return Contexts.of(self.together)


@dataclass(frozen=True, eq=False)
class SequentialCounts(Sums):
    """How often one code is in a visit and another in the patient's next visit, and the steps from visit to visit.

    >>> counts = SequentialCounts.count(Cohort.of([[["A"], ["B"]], [["A"]]]))
    >>> counts.together.toarray().tolist(), counts.places
    ([[0, 1], [0, 0]], 1)
    """

    together: sparse.csr_matrix
    places: int

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary | None = None) -> SequentialCounts:
        """The counts of a cohort."""
        visits = cohort.matrix().astype(np.int64)
        first = cohort.visits_with_next
        counts = (visits[first].T @ visits[first + 1]).tocsr()
        counts.sort_indices()
        return cls(counts, cohort.n_visits - cohort.n_patients)


@dataclass(frozen=True, eq=False)
class SortedValues:
    """Values in ascending order, as often as they occur.

    >>> both = SortedValues(np.array([1.0, 3.0])) + SortedValues(np.array([2.0, 3.0]))
    >>> both.values.tolist(), (both - SortedValues(np.array([1.0, 3.0]))).values.tolist()
    ([1.0, 2.0, 3.0, 3.0], [2.0, 3.0])
    """

    of_values: ClassVar[bool] = True
    sampled: ClassVar[bool] = True
    values: Floats

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> Self:
        """Values in any order."""
        return cls(np.sort(np.asarray(values, dtype=np.float64)))

    def __add__(self, other: Self) -> Self:
        return self.of(np.concatenate([self.values, other.values]))

    def __sub__(self, other: Self) -> Self:
        # The first of equal values goes for the first of them, the second for the second.
        place = np.arange(len(other.values)) - np.searchsorted(other.values, other.values)
        return type(self)(np.delete(self.values, np.searchsorted(self.values, other.values) + place))


def quantile_distance(one: Floats, two: Floats) -> float:
    """The mean distance between equal quantiles of two sorted arrays: Wasserstein-1, on a grid of quantiles.

    >>> quantile_distance(np.array([1.0, 3.0]), np.array([2.0, 2.0, 5.0, 5.0]))
    1.5
    """
    if not len(one) or not len(two):
        return float("nan")
    middle = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    return float(np.abs(np.subtract(*(x[(middle * len(x)).astype(np.int64)] for x in (one, two)))).mean())


def weighted_correlation(truth: Floats, guess: Floats, weight: Floats) -> float:
    """Weighted correlation, NaN where one side does not vary.

    >>> weighted_correlation(np.array([0.0, 1.0]), np.array([3.0, 7.0]), np.array([1.0, 1.0]))
    1.0
    """
    one, two = (values - np.average(values, weights=weight) for values in (truth, guess))
    spread = np.average(one**2, weights=weight) * np.average(two**2, weights=weight)
    return float(np.clip(np.average(one * two, weights=weight) / np.sqrt(spread), -1, 1)) if spread > 1e-12 else np.nan


# ---- neighbours of single codes -----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Contexts:
    """Neighbour counts of every code with what comparing them needs, computed once.

    >>> counts = sparse.csr_matrix(np.array([[0, 3, 1], [3, 0, 0], [1, 0, 0]]))
    >>> Contexts.of(counts).exists.tolist()
    [True, True, True]
    """

    #: Rows sum to 1 where the code has a neighbour at all.
    shares: sparse.csr_matrix
    #: row · V + column of each code's top neighbours, ascending.
    top_keys: NDArray[np.int64]
    exists: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: sparse.csr_matrix, top: int = TOP) -> Contexts:
        """Contexts from codes × codes counts with sorted indices and no stored zero."""
        totals = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
        scale = np.repeat(1.0 / np.maximum(totals, 1.0), np.diff(counts.indptr))
        shares = sparse.csr_matrix((counts.data * scale, counts.indices, counts.indptr), shape=counts.shape)
        return cls(shares, top_neighbours(counts, top), totals > 0)

    def divergence(self, other: Contexts) -> NDArray[np.float64]:
        """Jensen–Shannon divergence in nats of each code's neighbours; NaN where either has none.

        Only the neighbours in both need a logarithm: what is in one alone adds half its share times ln 2.

        >>> one = Contexts.of(sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])))
        >>> two = Contexts.of(sparse.csr_matrix(np.array([[0, 0, 1], [1, 0, 0], [1, 0, 0]])))
        >>> one.divergence(two).round(4).tolist()
        [0.6931, 0.0, nan]
        """
        mine = self.shares.multiply(_pattern(other.shares)).tocsr()
        theirs = other.shares.multiply(_pattern(self.shares)).tocsr()
        p, q = mine.data, theirs.data
        # p ln(2p/(p+q)) + q ln(2q/(p+q)) less the ln 2 that p and q would add if they stood alone.
        shared = p * np.log(p) + q * np.log(q) - (p + q) * np.log(p + q)
        n = self.shares.shape[0]
        rows = np.repeat(np.arange(n), np.diff(mine.indptr))
        out = np.log(2.0) + 0.5 * np.bincount(rows, weights=shared, minlength=n)
        # What equal distributions leave over by rounding is nothing.
        out[out < 1e-12] = 0.0
        return np.where(self.exists & other.exists, np.minimum(out, np.log(2.0)), np.nan)

    def shared_top(self, other: Contexts) -> NDArray[np.float64]:
        """Jaccard similarity of each code's top neighbours, the project's one measure of it; 0 where either has none.

        >>> one = Contexts.of(sparse.csr_matrix(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])))
        >>> two = Contexts.of(sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])))
        >>> one.shared_top(two).tolist()
        [0.5, 1.0, 0.0]
        """
        n = self.shares.shape[0]
        both = np.intersect1d(self.top_keys, other.top_keys, assume_unique=True)
        shared, mine, theirs = (np.bincount(keys // n, minlength=n) for keys in (both, self.top_keys, other.top_keys))
        return shared / np.maximum(mine + theirs - shared, 1)


def _pattern(shares: sparse.csr_matrix) -> sparse.csr_matrix:
    """1 wherever something is stored."""
    return sparse.csr_matrix((np.ones_like(shares.data), shares.indices, shares.indptr), shape=shares.shape)


def top_neighbours(counts: sparse.csr_matrix, top: int = TOP) -> NDArray[np.int64]:
    """row · V + column of the `top` largest counts of each row, ties to the smaller column, ascending.

    >>> top_neighbours(sparse.csr_matrix(np.array([[0, 2, 2], [2, 0, 0], [2, 0, 0]])), top=1).tolist()
    [1, 3, 6]
    """
    n = counts.shape[1]
    sizes = np.diff(counts.indptr)
    rows = np.repeat(np.arange(counts.shape[0], dtype=np.int64), sizes)
    keys = rows * n + counts.indices
    # A row with few neighbours keeps them all; only the long rows need ordering.
    crowded = np.flatnonzero(np.repeat(sizes > top, sizes))
    if len(crowded) == 0:
        return keys
    most = int(counts.data.max()) + 1
    order = np.argsort(rows[crowded] * most + (most - counts.data[crowded].astype(np.int64)), kind="stable")
    long_sizes = sizes[sizes > top]
    rank = np.arange(len(crowded)) - np.repeat(np.cumsum(long_sizes) - long_sizes, long_sizes)
    keep = np.repeat(sizes <= top, sizes)
    keep[crowded[order[rank < top]]] = True
    return keys[keep]


# ---- agreement of frequencies -------------------------------------------------------------------------------
def r_squared(
    reference: sparse.csr_matrix, reference_places: int, synthetic: sparse.csr_matrix, synthetic_places: int
) -> tuple[float, int]:
    """R² of the probabilities of all n-grams that occur in either cohort, and their number; NaN without variation.

    The reference is the truth: 1 is perfect, and it may be far below 0.

    >>> one, two = sparse.csr_matrix([[1, 2, 3]]), sparse.csr_matrix([[2, 4, 6]])
    >>> value, n = r_squared(one, 10, two, 20)
    >>> round(value, 9), n
    (1.0, 3)
    """
    both = reference.multiply(synthetic)
    n = int(reference.nnz + synthetic.nnz - both.nnz)
    if n < 2 or reference_places == 0 or synthetic_places == 0:
        return float("nan"), n
    truth, guess = (matrix.data.astype(np.float64) for matrix in (reference, synthetic))
    truth, guess = truth / reference_places, guess / synthetic_places
    cross = both.sum() / reference_places / synthetic_places
    truth_squares, guess_squares = (truth**2).sum(), (guess**2).sum()
    spread = truth_squares - truth.sum() ** 2 / n
    # Differences of large sums: what is left below rounding is no variation at all.
    if spread <= 1e-12 * truth_squares:
        return float("nan"), n
    return float(min(1 - (truth_squares + guess_squares - 2 * cross) / spread, 1.0)), n
