"""Cohorts made alike in codes per visit and tail codes per visit, so that a score cannot be won by writing less.

A generator that writes few and common codes gets a high share of seen pairs. So both sides, real and synthetic, are
thinned to what both have: first tail codes are dropped at random, from the side with more, until both have the same
number per visit; then visits are ranked by size on each side and cut to the smaller of the two sizes at that rank,
other codes first, tail codes last. Nothing is ever added, and a visit that loses all its codes is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.seeds import random_stream


def tail_per_visit(cohort: Cohort, tail: NDArray[np.bool_]) -> float:
    """Mean number of tail codes per visit.

    >>> tail_per_visit(Cohort.of([[["A", "B"], ["B"]]]), np.array([True, False]))
    0.5
    """
    return float(tail[cohort.codes].sum() / max(cohort.n_visits, 1))


def with_fewer_tail_codes(cohort: Cohort, tail: NDArray[np.bool_], rate: float, seed: int) -> Cohort:
    """The cohort after tail codes were dropped at random so that `rate` per visit are left, if it has more.

    >>> cohort = Cohort.of([[["A", "B"]]] * 10)
    >>> tail_per_visit(with_fewer_tail_codes(cohort, np.array([True, False]), 0.3, seed=1), np.array([True, False]))
    0.3
    """
    entries = np.flatnonzero(tail[cohort.codes])
    surplus = len(entries) - round(rate * cohort.n_visits)
    if surplus <= 0:
        return cohort
    keep = np.ones(cohort.n_entries, dtype=bool)
    keep[random_stream(seed, "fewer tail codes").choice(entries, surplus, replace=False)] = False
    return cohort.keep_entries(keep)


@dataclass(frozen=True, eq=False)
class Profile:
    """What two cohorts have in common: tail codes per visit, and the smaller visit size at each rank.

    >>> wide, narrow = Cohort.of([[["A", "B", "C"]]] * 4), Cohort.of([[["A", "B"]]] * 4, ["A", "B", "C"])
    >>> profile = Profile.of(wide, narrow, np.array([False, False, True]), seed=1)
    >>> profile.applied(wide).codes_per_visit.tolist(), profile.tail_per_visit
    ([2, 2, 2, 2], 0.0)
    """

    tail: NDArray[np.bool_]
    tail_per_visit: float
    #: Visit sizes of the two cohorts, ascending, after tail codes were matched.
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]]
    seed: int

    @classmethod
    def of(cls, one: Cohort, two: Cohort, tail: NDArray[np.bool_], seed: int) -> Profile:
        """The profile that both cohorts can be thinned to."""
        rate = min(tail_per_visit(one, tail), tail_per_visit(two, tail))
        thinned = (with_fewer_tail_codes(cohort, tail, rate, seed) for cohort in (one, two))
        first, second = (np.sort(cohort.codes_per_visit) for cohort in thinned)
        return cls(tail, rate, (first, second), seed)

    def applied(self, cohort: Cohort) -> Cohort:
        """The cohort thinned to this profile."""
        cohort = with_fewer_tail_codes(cohort, self.tail, self.tail_per_visit, self.seed)
        n = cohort.n_visits
        if n == 0 or not all(len(sizes) for sizes in self.sizes):
            return cohort
        draw = random_stream(self.seed, "thinned visits")
        by_size = np.lexsort((draw.random(n), cohort.codes_per_visit))
        rank = (np.arange(n) + 0.5) / n
        sizes_by_rank = np.minimum(*(sizes[(rank * len(sizes)).astype(np.int64)] for sizes in self.sizes))
        target = np.empty(n, dtype=np.int64)
        target[by_size] = sizes_by_rank
        # Tail codes come first in each visit, in random order, then the others: the first `target` stay.
        order = np.lexsort((draw.random(cohort.n_entries), ~self.tail[cohort.codes], cohort.visit_of_entry))
        position = np.arange(cohort.n_entries) - np.repeat(cohort.visit_starts[:-1], cohort.codes_per_visit)
        keep = np.zeros(cohort.n_entries, dtype=bool)
        keep[order[position < np.repeat(target, cohort.codes_per_visit)]] = True
        return cohort.keep_entries(keep)
