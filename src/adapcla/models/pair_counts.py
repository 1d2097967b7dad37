"""How often codes meet in visits, and in which bands counts are told apart.

A band of counts and one of expected counts make a cell, and cells are what a belief is learned for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Cohort
from adapcla.data.cooccurrence import visit_pairs
from adapcla.disclosure import MIN_COUNT

#: Lower edges of the bands of counts; a band is a row of a table of belief.
COUNT_EDGES = (1, 2, 3, 4, 5, 7, 9, 11, 14, 20, 30, 50, 100, 300, 1000)
#: Powers of two that bound the bands of expected counts: a column each.
EXPECTED_POWERS = tuple(range(-8, 12))
N_COLUMNS = len(EXPECTED_POWERS) + 1
#: Steps of optimisers are small beside the log-odds that a partner brings; this many times larger they reach them.
PACE = 4.0
#: Pairs listed at a time.
_PAIRS_AT_ONCE = 4_000_000


def count_band(counts: Tensor) -> Tensor:
    """The row of the table of belief of each count.

    >>> count_band(torch.tensor([1, 2, 6, 5000])).tolist()
    [0, 1, 4, 14]
    """
    return torch.bucketize(counts, torch.tensor(COUNT_EDGES[1:]), right=True)


def expected_band(expected: Tensor) -> Tensor:
    """The column of the table of belief of each expected count.

    >>> expected_band(torch.tensor([1e-9, 1.0, 1.5, 1e9])).tolist()
    [0, 8, 9, 20]
    """
    return torch.bucketize(torch.log2(expected.clamp(min=1e-12)), torch.tensor(EXPECTED_POWERS, dtype=torch.float32))


class PairCounts(NamedTuple):
    """Same-visit pairs of codes in some cohort, smaller position first, by first and then second."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    visits: NDArray[np.int64]
    patients: NDArray[np.int64]


def pair_counts(cohort: Cohort, family: NDArray[np.int64] | None = None) -> PairCounts:
    """How many visits and how many patients hold each pair; with families of codes, how often these meet.

    >>> pair_counts(Cohort.of([[["A", "B"], ["A", "B"]], [["A", "B", "C"]]])).visits.tolist()
    [3, 1, 1]
    >>> pair_counts(Cohort.of([[["A", "B"], ["A", "B"]], [["A", "B", "C"]]])).patients.tolist()
    [2, 1, 1]
    >>> pair_counts(Cohort.of([[["A", "B", "C"]]]), np.array([0, 0, 1])).visits.tolist()  # A–B; A–C and B–C
    [1, 2]
    """
    n, parts = cohort.n_codes, []
    for some in _patients_at_once(cohort):
        for block in visit_pairs(cohort.subset(some), block=1 << 62):
            first, second = block.first.astype(np.int64), block.second.astype(np.int64)
            if family is not None:
                first, second = np.sort(np.stack([family[first], family[second]]), axis=0)
            key = first * n + second
            order = np.lexsort((block.patient, key))
            key, patient = key[order], block.patient[order]
            fresh = np.r_[True, key[1:] != key[:-1]]
            other_patient = fresh | np.r_[True, patient[1:] != patient[:-1]]
            number = np.cumsum(fresh) - 1
            parts.append((key[fresh], np.bincount(number), np.bincount(number, other_patient)))
    keys = np.concatenate([np.zeros(0, dtype=np.int64), *(part[0] for part in parts)])
    key, place = np.unique(keys, return_inverse=True)
    visits, patients = (
        np.bincount(place, np.concatenate([np.zeros(0), *(part[i] for part in parts)]), minlength=len(key))
        for i in (1, 2)
    )
    return PairCounts(key // n, key % n, visits.astype(np.int64), patients.astype(np.int64))


def _patients_at_once(cohort: Cohort) -> Iterator[NDArray[np.int64]]:
    """Positions of patients, some at a time, so that the pairs of their visits fit into memory."""
    sizes = cohort.codes_per_visit
    pairs = np.add.reduceat(sizes * (sizes - 1) // 2, cohort.first_visits) if cohort.n_patients else sizes
    number = np.cumsum(pairs) // _PAIRS_AT_ONCE
    for each in np.unique(number):
        yield np.flatnonzero(number == each)


def expected_column(counts: Tensor, n_visits: int) -> Callable[[Tensor, Tensor], Tensor]:
    """From two positions in `counts` to the column of how often chance would have them meet.

    The column is saved, so that counts too small to be told are all taken as the largest of them.

    >>> column = expected_column(torch.tensor([100, 1, 10]), n_visits=1000)
    >>> column(torch.tensor([0, 0, 0]), torch.tensor([0, 1, 2])).tolist()
    [12, 8, 8]
    """
    alike = torch.where((counts > 0) & (counts < MIN_COUNT), MIN_COUNT - 1, counts).double()
    return lambda one, other: expected_band((alike[one] * alike[other] / max(n_visits, 1)).float())


def told(rows: Tensor) -> Tensor:
    """The bands of counts for others, in which all counts too small to be told are one: that of the middle one.

    >>> told(torch.tensor([0, 2, 6, 7, 12])).tolist()
    [3, 3, 3, 7, 12]
    """
    first_told = int(count_band(torch.tensor([MIN_COUNT - 1]))) + 1
    return torch.where(rows < first_told, first_told // 2, rows)
