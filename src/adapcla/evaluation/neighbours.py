"""The neighbours of each code, and how alike they are in two cohorts: divergence and shared top neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts

#: Neighbours compared by `top_neighbours`.
TOP = 20


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
    def of(cls, counts: sparse.csr_matrix) -> Contexts:
        """Contexts from codes × codes counts with sorted indices and no stored zero."""
        totals = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
        scale = np.repeat(1.0 / np.maximum(totals, 1.0), np.diff(counts.indptr))
        shares = sparse.csr_matrix((counts.data * scale, counts.indices, counts.indptr), shape=counts.shape)
        return cls(shares, top_neighbours(counts), totals > 0)

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
        """Jaccard similarity of each code's top neighbours; 0 where either has none.

        >>> one = Contexts.of(sparse.csr_matrix(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])))
        >>> two = Contexts.of(sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])))
        >>> one.shared_top(two).tolist()
        [0.5, 1.0, 0.0]
        """
        n = self.shares.shape[0]
        both = np.intersect1d(self.top_keys, other.top_keys, assume_unique=True)
        shared, mine, theirs = (np.bincount(keys // n, minlength=n) for keys in (both, self.top_keys, other.top_keys))
        return shared / np.maximum(mine + theirs - shared, 1)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Which codes share visits in a cohort: counts, and the set and contexts that follow from them, each computed once.

    >>> neighbours = Neighbours.of(Cohort.of([[["A", "B"], ["C"]]]))
    >>> neighbours.contexts.exists.tolist()
    [True, True, False]
    """

    #: Codes × codes, the number of visits that hold both.
    counts: sparse.csr_matrix

    @classmethod
    def of(cls, cohort: Cohort) -> Neighbours:
        """The neighbours in a cohort's visits."""
        return cls(cooccurrence_counts(cohort))

    @cached_property
    def pairs(self) -> PairSet:
        """The pairs that occur."""
        return PairSet.of(self.counts)

    @cached_property
    def contexts(self) -> Contexts:
        """The contexts of all codes."""
        return Contexts.of(self.counts)


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
