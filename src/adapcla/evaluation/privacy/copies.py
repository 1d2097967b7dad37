"""Copies of real records: exact copies, near copies and copied runs of visits, of members and of controls.

Short common records repeat by nature. The controls say how often: a rate counts only as far as it exceeds the rate
from as many controls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from adapcla.data import Cohort
from adapcla.data.cooccurrence import visit_pairs
from adapcla.data.fingerprints import identities, record_fingerprints, transition_fingerprints
from adapcla.evaluation.bootstrap import normal_half
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.privacy.distances import aligned_sets, code_sets, nearest
from adapcla.evaluation.privacy.owners import OwnedPairs, pair_set
from adapcla.evaluation.privacy.strata import FEWEST, NOBODY, RARE, UNIQUE_PAIR, Groups, assessed, holds_any

#: A record shorter than this repeats too easily to be called a copy.
FEWEST_VISITS, FEWEST_CODES = 2, 6
#: A record with a rare code and fewer distinct codes than this says little more than that the code exists.
FEWEST_CODES_IF_RARE = 3
#: The share of controls that lie as near to a member as a near copy does.
NEAR_QUANTILE = 0.01


def excess_score(contributions: NDArray[np.float64], n: int, largest: NDArray[np.float64] | None = None) -> Score:
    """The sum of contributions over n with its interval; a contribution is what one real record or patient adds.

    Each contribution has mean zero when nothing leaked, whatever its size, so the variance of their sum is the sum
    of their squares; where `largest` tells what each could have been, of their size times that, which is no less.
    Half an observation is added to each of the four cells of the paired table (Agresti and Min, 2005), so that no
    copy among few records is not taken for certainty.

    >>> score = excess_score(np.array([1.0, 1.0, -1.0]), 98)
    >>> round(score.value, 4), round(score.low, 4), round(score.high, 4)
    (0.0102, -0.0292, 0.0492)
    """
    size = np.abs(contributions)
    total, squares = float(contributions.sum()), float((size * (size if largest is None else largest)).sum())
    half = normal_half() * float(np.sqrt(max(squares + 1 - total**2 / (n + 2), 0.0))) / (n + 2)
    centre, value = total / (n + 2), total / n
    return Score(value, n, max(-1.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


def drawn_share(held: NDArray[np.int64], total: int, drawn: int) -> NDArray[np.float64]:
    """The chance that at least one of `held` among `total` patients is in a random `drawn` of them.

    >>> drawn_share(np.array([0, 1, 2, 3]), 4, 2).round(4).tolist()
    [0.0, 0.5, 0.8333, 1.0]
    """
    if drawn >= total:
        return (held > 0).astype(np.float64)
    rest = total - np.asarray(held, dtype=np.float64)
    possible = np.maximum(rest - drawn, 0.0)
    missed = gammaln(rest + 1) - gammaln(possible + 1) - gammaln(total + 1) + gammaln(total - drawn + 1)
    return np.where(held == 0, 0.0, np.where(rest < drawn, 1.0, -np.expm1(missed)))


def match_excess(
    synthetic: NDArray[np.int64], members: NDArray[np.int64], controls: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each kind of record, its synthetic records if members hold it, less if controls do; and their number.

    The larger group counts with the chance that the kind is held by a random part of it as large as the smaller.

    >>> [part.tolist() for part in match_excess(np.array([0, 0, 1, 2, 3]), np.array([0, 1]), np.array([1, 2]))]
    [[2.0, 0.0, -1.0, 0.0], [2.0, 1.0, 1.0, 1.0]]
    """
    n_kinds = 1 + int(max(ids.max(initial=-1) for ids in (synthetic, members, controls)))
    times = np.bincount(synthetic, minlength=n_kinds).astype(np.float64)
    n = min(len(members), len(controls))
    held = [drawn_share(np.bincount(ids, minlength=n_kinds), len(ids), n) for ids in (members, controls)]
    return times * (held[0] - held[1]), times


def long_enough(cohort: Cohort) -> NDArray[np.bool_]:
    """Patients with at least two visits and six codes in all.

    >>> long_enough(Cohort.of([[list("ABC"), list("ABC")], [list("ABCDEFG")], [["A"], ["B"]]])).tolist()
    [True, False, False]
    """
    return (cohort.visits_per_patient >= FEWEST_VISITS) & (entries_per_patient(cohort) >= FEWEST_CODES)


def entries_per_patient(cohort: Cohort) -> NDArray[np.int64]:
    """Number of codes in all visits of each patient together.

    >>> entries_per_patient(Cohort.of([[["A", "B"], ["A"]], [["C"]]])).tolist()
    [3, 1]
    """
    return np.diff(cohort.entry_starts)


def holds_pair(cohort: Cohort, pairs: OwnedPairs) -> NDArray[np.bool_]:
    """Which patients hold at least one of the pairs in one visit.

    >>> pairs = OwnedPairs(np.array([0]), np.array([1]), np.array([0]))
    >>> holds_pair(Cohort.of([[["A", "B"]], [["A"], ["B"]], [["A", "C"]]]), pairs).tolist()
    [True, False, False]
    """
    owned = pair_set(pairs, cohort.n_codes)
    out = np.zeros(cohort.n_patients, dtype=bool)
    for block in visit_pairs(cohort):
        out[block.patient[owned.holds(block.first, block.second)]] = True
    return out


def _strata_of_synthetic(comparison: Comparison) -> dict[str, NDArray[np.bool_]]:
    """Synthetic patients that hold a rare code, or a pair that one real patient holds alone."""
    groups = comparison.once(Groups.of)
    return {
        ALL: np.ones(groups.synthetic.n_patients, dtype=bool),
        RARE: holds_any(groups.synthetic, groups.rare_codes),
        UNIQUE_PAIR: holds_pair(groups.synthetic, groups.owned),
    }


def _copies(groups: Groups, chosen: NDArray[np.bool_]) -> Score:
    """Excess of exact copies among the chosen synthetic patients."""
    n = int(chosen.sum())
    if n == 0:
        return Missing(f"{NOBODY}: no synthetic record is of this kind").score
    if n < FEWEST:
        return Missing(f"insufficient data: {n} synthetic records of this kind, {FEWEST} needed", n).score
    prints = (record_fingerprints(c, groups.keys) for c in (groups.synthetic, groups.members, groups.controls))
    synthetic, members, controls = identities(*prints)
    contributions, times = match_excess(synthetic[chosen], members, controls)
    return excess_score(contributions, n, times)


@assessed
def copy_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of synthetic records (two visits, six codes or more) that copy a member, less a control, of as many."""
    strata = comparison.once(_strata_of_synthetic)
    eligible = long_enough(groups.synthetic)
    return {name: _copies(groups, eligible & mask) for name, mask in strata.items()}


@assessed
def rare_copy_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of synthetic records with a rare code or a one-patient pair that copy a member, less a control."""
    strata = comparison.once(_strata_of_synthetic)
    telling = np.diff(code_sets(groups.synthetic).indptr) >= FEWEST_CODES_IF_RARE
    return {ALL: _copies(groups, telling & (strata[RARE] | strata[UNIQUE_PAIR]))}


@assessed
def run_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of two consecutive synthetic visits that also follow each other in a member, less in a control."""
    prints, patient = transition_fingerprints(groups.synthetic, groups.keys)
    prints = prints[long_enough(groups.synthetic)[patient]]
    n = len(prints)
    if n < FEWEST:
        return {ALL: Missing(f"insufficient data: {n} runs of two visits, {FEWEST} needed", n).score}
    others = (transition_fingerprints(cohort, groups.keys)[0] for cohort in (groups.members, groups.controls))
    contributions, times = match_excess(*identities(prints, *others))
    return {ALL: excess_score(contributions, n, times)}


def near_contributions(
    synthetic: Cohort, members: Cohort, controls: Cohort, quantile: float = NEAR_QUANTILE
) -> tuple[NDArray[np.float64], float]:
    """What each member (+) and control (−) adds to the near copies, and the distance that counts as near.

    Near is the `quantile` of the distances from a control to its nearest member. A synthetic record that near to
    its nearest member counts for that member, and likewise for controls.

    >>> real, other = (Cohort.of([[list("ABC"), list(last)]], list("ABCDEFG")) for last in ("DEF", "DEG"))
    >>> near_contributions(real.subset([0, 0, 0]), real, other)
    (array([ 3., -3.]), 2.0)
    """
    s, d, h = aligned_sets([synthetic, members, controls])
    to_members = nearest(h[np.flatnonzero(long_enough(controls))], d).distance
    radius = float(np.quantile(to_members, quantile, method="inverted_cdf")) if len(to_members) else 0.0
    parts = []
    for sign, real in ((1.0, d), (-1.0, h)):
        distance, row = nearest(s, real)
        parts.append(sign * np.bincount(row[distance <= radius], minlength=real.shape[0]))
    return np.concatenate(parts), radius


@assessed
def near_copy_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of synthetic records as near to a member as 1 % of the controls are, less the same for controls."""
    most = 2 * groups.most
    members, controls = groups.matched(most)
    eligible = np.flatnonzero(long_enough(groups.synthetic))[:most]
    n_controls = int(long_enough(controls).sum())
    if len(eligible) + n_controls == 0:
        return {ALL: Missing(f"{NOBODY}: no record has two visits and six codes").score}
    if min(len(eligible), n_controls) < FEWEST:
        reason = f"{len(eligible)} synthetic records and {n_controls} controls of two visits and six codes"
        return {ALL: Missing(f"insufficient data: {reason}, {FEWEST} of each needed", len(eligible)).score}
    contributions, _ = near_contributions(groups.synthetic.subset(eligible), members, controls)
    return {ALL: excess_score(contributions, len(eligible))}
