"""Which codes stand together in a visit, and how often: the counts that all tail metrics share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.ragged import expand_ranges

#: Pairs listed at a time, so that memory does not grow with the cohort.
_BLOCK = 4_000_000
#: Codes above which a set of pairs holds the pairs themselves: a bit for each possible one would take 32 MB.
WIDE = 16_384


class PairBlock(NamedTuple):
    """Some same-visit pairs, smaller code first, and the patient that each belongs to."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    patient: NDArray[np.int64]


def visit_pairs(cohort: Cohort, block: int = _BLOCK) -> Iterator[PairBlock]:
    """Every unordered pair of codes of every visit, in blocks of whole visits.

    >>> [(b.first.tolist(), b.second.tolist()) for b in visit_pairs(Cohort.of([[["A", "B", "C"], ["A"]]]))]
    [([0, 0, 1], [1, 2, 2])]
    """
    sizes = cohort.codes_per_visit
    pairs_before = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    begin = 0
    while begin < cohort.n_visits:
        end = int(np.searchsorted(pairs_before, pairs_before[begin] + block, side="right")) - 1
        end = min(max(end, begin + 1), cohort.n_visits)
        if pairs_before[end] > pairs_before[begin]:
            yield _pairs_of(cohort, begin, end)
        begin = end


def _pairs_of(cohort: Cohort, begin: int, end: int) -> PairBlock:
    """The pairs of the visits from `begin` up to `end`: each entry with every later entry of its visit."""
    starts = np.asarray(cohort.visit_starts[begin : end + 1])
    entries = np.arange(starts[0], starts[-1], dtype=np.int64)
    visit_end = np.repeat(starts[1:], np.diff(starts))
    later = visit_end - entries - 1
    codes = np.asarray(cohort.codes[starts[0] : starts[-1]])
    patient = np.repeat(cohort.patient_of_visit[begin:end], np.diff(starts))
    return PairBlock(
        np.repeat(codes, later),
        codes[expand_ranges(entries + 1, visit_end) - starts[0]],
        np.repeat(patient, later),
    )


def cooccurrence_counts(cohort: Cohort) -> sparse.csr_matrix:
    """Codes × codes, the number of visits that hold both; symmetric, with an empty diagonal.

    >>> cooccurrence_counts(Cohort.of([[["A", "B"], ["A", "B", "C"]]])).toarray().tolist()
    [[0, 2, 1], [2, 0, 1], [1, 1, 0]]
    """
    visits = cohort.matrix().astype(np.int64)
    counts = (visits.T @ visits).tocsr()
    counts.setdiag(0)
    counts.eliminate_zeros()
    counts.sort_indices()
    return counts


def visits_with_neighbours(cohort: Cohort) -> NDArray[np.int64]:
    """For each code, the number of visits with at least two codes that hold it.

    >>> visits_with_neighbours(Cohort.of([[["A", "B"], ["A"]]])).tolist()
    [1, 1]
    """
    together = np.repeat(cohort.codes_per_visit >= 2, cohort.codes_per_visit)
    return np.bincount(np.asarray(cohort.codes)[together], minlength=cohort.n_codes).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PairSet:
    """The pairs that occur in a cohort.

    Of up to `WIDE` codes it is one bit for each possible pair, so that a look-up is one memory access; of more codes
    the pairs themselves in ascending order, so that 50,000 codes take 8 bytes for each pair and not 312 MB.

    >>> seen = PairSet.of(cooccurrence_counts(Cohort.of([[["A", "B"], ["C"]]])))
    >>> seen.holds(np.array([0, 0]), np.array([1, 2])).tolist()
    [True, False]
    """

    n_codes: int
    bits: NDArray[np.uint8] | None
    keys: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, counts: sparse.csr_matrix) -> PairSet:
        """The set of the pairs with a count."""
        n_codes = counts.shape[0]
        rows = np.repeat(np.arange(n_codes, dtype=np.int64), np.diff(counts.indptr))
        # Rows and, inside them, columns ascend.
        keys = rows * n_codes + counts.indices
        if n_codes > WIDE:
            return cls(n_codes, None, keys)
        bits = np.zeros((n_codes * n_codes + 7) // 8, dtype=np.uint8)
        if len(keys):
            # Equal bytes are neighbours.
            where = keys >> 3
            begins = np.flatnonzero(np.concatenate([[True], where[1:] != where[:-1]]))
            bits[where[begins]] = np.bitwise_or.reduceat(np.left_shift(1, keys & 7).astype(np.uint8), begins)
        return cls(n_codes, bits)

    def holds(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each pair is in the set."""
        keys = first.astype(np.int64) * self.n_codes + second
        if self.bits is not None:
            return (self.bits[keys >> 3] >> (keys & 7).astype(np.uint8) & 1).astype(bool)
        if self.keys is None or not len(self.keys):
            return np.zeros(len(keys), dtype=bool)
        return np.asarray(self.keys[np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)] == keys)
