"""Singling out: does "holds this and that code in one visit", true of one synthetic patient, fit one real patient?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from adapcla.metrics.contract import ALL, Comparison, Score, metric
from adapcla.metrics.intervals import LEVEL
from adapcla.metrics.pairs import PairSet
from adapcla.metrics.privacy.owners import OwnedPairs, owned_pairs
from adapcla.metrics.privacy.strata import FEWEST, Groups, assessed


def fits_one(predicates: OwnedPairs, real: OwnedPairs, n_codes: int) -> NDArray[np.float64]:
    """1 for each predicate that exactly one real patient fulfils, 0 for the others.

    >>> made = OwnedPairs(np.array([0, 0]), np.array([1, 2]), np.array([0, 0]))
    >>> fits_one(made, OwnedPairs(np.array([0]), np.array([2]), np.array([5])), 3).tolist()
    [0.0, 1.0]
    """
    ones = np.ones(len(real), dtype=np.int32)
    alone = sparse.csr_matrix((ones, (real.first, real.second)), shape=(n_codes, n_codes))
    return PairSet.of(alone).holds(predicates.first, predicates.second).astype(np.float64)


def singled_out(predicates: OwnedPairs, members: NDArray[np.float64], controls: NDArray[np.float64]) -> Score:
    """The share of predicates that single out a member, less that for controls, synthetic patients as units.

    >>> made = OwnedPairs(np.zeros(4, int), np.arange(1, 5), np.array([0, 0, 1, 1]))
    >>> singled_out(made, np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])).value
    0.25
    """
    n = len(predicates)
    gap = float((members - controls).mean())
    _, owner = np.unique(predicates.owner, return_inverse=True)
    by_owner = np.bincount(owner, weights=members - controls - gap)
    half = float(stats.norm.ppf(0.5 + LEVEL / 2)) * float(np.sqrt((by_owner**2).sum())) / n
    return Score(gap, n, max(-1.0, gap - half), min(1.0, gap + half))


@metric("singling_out_excess", suite="privacy", goal="down", bounds=(-1.0, 1.0), origin="own")
@assessed
def singling_out_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of pairs held by one synthetic patient that single out a member, less a control, of as many."""
    predicates = owned_pairs([groups.synthetic])
    n = len(predicates)
    if n < FEWEST:
        return {ALL: Score.missing(f"insufficient data: {n} predicates, {FEWEST} needed", n)}
    n_codes = len(comparison.vocabulary)
    hits = [fits_one(predicates, owned_pairs([cohort]), n_codes) for cohort in groups.matched()]
    return {
        ALL: singled_out(predicates, *hits),
        "members": Score(float(hits[0].mean()), n),
        "controls": Score(float(hits[1].mean()), n),
    }
