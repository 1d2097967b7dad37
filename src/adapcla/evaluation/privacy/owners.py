"""Which same-visit pairs of codes belong to exactly one patient, and to whom: sparse products, no list of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet


@dataclass(frozen=True, eq=False)
class OwnedPairs:
    """The pairs held by exactly one patient, smaller code first, and that patient's position."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    owner: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.owner)


def owned_pairs(cohorts: Sequence[Cohort]) -> OwnedPairs:
    """The pairs that exactly one patient of all the cohorts together holds; patients are counted through.

    A pair's visits all belong to one patient exactly when the patient numbers on them do not vary, that is when
    n·Σp² = (Σp)²; the three sums over visits are three sparse products.

    >>> one = Cohort.of([[["A", "B"], ["A", "B"]], [["B", "C"]]], ["A", "B", "C"])
    >>> other = Cohort.of([[["B", "C"]], [["A", "C"]]], ["A", "B", "C"])
    >>> pairs = owned_pairs([one, other])
    >>> pairs.first.tolist(), pairs.second.tolist(), pairs.owner.tolist()
    ([0, 0], [1, 2], [0, 3])
    """
    visits = sparse.vstack([cohort.matrix() for cohort in cohorts]).astype(np.int64).tocsr()
    offsets = np.cumsum([0, *(cohort.n_patients for cohort in cohorts)])
    # Numbers start at 1, so that no product holds a zero and the three patterns agree.
    number = 1 + np.concatenate(
        [cohort.patient_of_visit + offset for cohort, offset in zip(cohorts, offsets[:-1], strict=True)]
    )
    turned = visits.T.tocsr()
    n_visits, first, second = _upper(turned @ visits)
    turned.data = number[turned.indices]
    total, _, _ = _upper(turned @ visits)
    turned.data *= turned.data
    squares, _, _ = _upper(turned @ visits)
    # More visits than any patient has cannot be one patient's; leaving them out keeps the products below 2^63.
    longest = max((int(cohort.visits_per_patient.max(initial=0)) for cohort in cohorts), default=0)
    possible = n_visits <= longest
    n_visits, total, squares = n_visits[possible], total[possible], squares[possible]
    alone = n_visits * squares == total * total
    return OwnedPairs(
        first[possible][alone], second[possible][alone], total[alone] // np.maximum(n_visits[alone], 1) - 1
    )


def pair_set(pairs: OwnedPairs, n_codes: int) -> PairSet:
    """The pairs as a set in which pairs can be looked up.

    >>> pairs = OwnedPairs(np.array([0]), np.array([2]), np.array([5]))
    >>> pair_set(pairs, 3).holds(np.array([0, 1]), np.array([2, 2])).tolist()
    [True, False]
    """
    ones = np.ones(len(pairs), dtype=np.int32)
    return PairSet.of(sparse.csr_matrix((ones, (pairs.first, pairs.second)), shape=(n_codes, n_codes)))


def sum_error(owner: NDArray[np.int64], weights: NDArray[np.float64], n_patients: int) -> float:
    """The standard error of a sum over pairs whose owners are the units that were drawn at random.

    >>> sum_error(np.array([0, 0, 1]), np.ones(3), 3)
    1.4142135623730951
    """
    by_patient = np.bincount(owner, weights=weights, minlength=n_patients)
    return float(np.sqrt(n_patients * by_patient.var()))


def _upper(product: sparse.csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Values, rows and columns above the diagonal, in order of row and column."""
    above = sparse.triu(product, k=1, format="csr")
    above.sort_indices()
    rows = np.repeat(np.arange(above.shape[0], dtype=np.int64), np.diff(above.indptr))
    return above.data.astype(np.int64), rows, above.indices.astype(np.int64)
