"""Memorised pairs: does the synthetic cohort hold the pairs of members more often than those of controls?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort, Strata
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.bootstrap import normal_score
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.privacy.owners import OwnedPairs, owned_pairs, sum_error
from adapcla.evaluation.privacy.strata import BEYOND_PREVALENCE, RARE, Groups, assessed, too_few
from adapcla.evaluation.statistics import PairCounts


def pooled_share(hits: NDArray[np.float64], sizes: NDArray[np.float64]) -> tuple[float, float]:
    """The pooled share of hits and its standard error, patients as units (linearised ratio).

    >>> pooled_share(np.array([1.0, 0.0, 1.0, 0.0]), np.ones(4))
    (0.5, 0.25)
    """
    total = float(sizes.sum())
    share = float(hits.sum()) / total
    return share, float(np.sqrt(((hits - share * sizes) ** 2).sum())) / total


def owned_pair_gap(pairs: OwnedPairs, emitted: NDArray[np.bool_ | np.float64], n_members: int) -> Score:
    """The share emitted of the pairs that one member holds alone, less that of one control, with its interval.

    In the place of whether a pair is emitted may stand how far that is from what was expected.

    >>> pairs = OwnedPairs(np.zeros(4, int), np.arange(1, 5), np.array([0, 1, 2, 3]))
    >>> owned_pair_gap(pairs, np.array([True, False, False, False]), 2).value
    0.5
    """
    shares, variance = [], 0.0
    for side in (pairs.owner < n_members, pairs.owner >= n_members):
        _, owner = np.unique(pairs.owner[side], return_inverse=True)
        sizes = np.bincount(owner).astype(np.float64)
        hits = np.asarray(np.bincount(owner, weights=emitted[side]), dtype=np.float64)
        share, error = pooled_share(hits, sizes)
        shares.append(share)
        variance += error**2
    # What is surprising on the one side may be missing on the other: more than all is all.
    gap = float(np.clip(shares[0] - shares[1], -1.0, 1.0))
    return normal_score(gap, len(pairs), float(np.sqrt(variance)), (-1.0, 1.0))


def emitted_by_prevalence(pairs: OwnedPairs, members: Cohort, synthetic: Cohort) -> NDArray[np.float64]:
    """The chance that a synthetic visit holds each pair, if nothing but the members' prevalences were known.

    Codes then come as often as among the members and stand beside each other by chance, in as many pairs as the
    synthetic visits have. Nothing is expected of a pair with a code that too few members hold: to know such a code is
    to know its holders.

    Three codes, each in eleven of 33 visits, and one visit of two codes: one pair of three.

    >>> members = Cohort.of([[[code]] for code in "ABC" * 11])
    >>> pairs = OwnedPairs(np.array([0]), np.array([1]), np.array([0]))
    >>> emitted_by_prevalence(pairs, members, Cohort.of([[["A", "B"]]], "ABC")).round(3).tolist()  # 1 − exp(−1/3)
    [0.283]
    """
    share = members.visit_counts / max(members.n_visits, 1)
    sizes = synthetic.codes_per_visit.astype(np.float64)
    all_pairs = float((share.sum() ** 2 - (share**2).sum()) / 2)
    expected = (sizes * (sizes - 1)).sum() / 2 * share[pairs.first] * share[pairs.second] / max(all_pairs, 1e-300)
    common = members.patient_counts >= MIN_COUNT
    return np.where(common[pairs.first] & common[pairs.second], -np.expm1(-expected), 0.0)


@assessed
def unique_pair_gap(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of the pairs that one member holds alone which are emitted, less that of the pairs of one control.

    The stratum `common_codes` looks at pairs of two codes that at least eleven patients hold: what is left when it
    does not count that a code as such is known from training. `beyond_prevalence` is of all pairs, less what
    prevalences alone bring: whoever counts a member counts both codes of a member's pair once more, so that a cohort of
    independent codes at the members' prevalences has a gap, though it knows no pair.
    """
    pairs, n = groups.owned, groups.members.n_patients
    emitted = groups.emitted.holds(pairs.first, pairs.second)
    surprising = emitted - emitted_by_prevalence(pairs, groups.members, groups.synthetic)
    common = (groups.holders[pairs.first] >= MIN_COUNT) & (groups.holders[pairs.second] >= MIN_COUNT)
    rare_owner = np.concatenate(groups.masks()[RARE])[pairs.owner]
    everybody = np.ones(len(pairs), bool)
    out = {}
    for name, chosen, written in (
        (ALL, everybody, emitted),
        (RARE, rare_owner, emitted),
        ("common_codes", common, emitted),
        (BEYOND_PREVALENCE, everybody, surprising),
    ):
        some = OwnedPairs(pairs.first[chosen], pairs.second[chosen], pairs.owner[chosen])
        owners = np.unique(some.owner)
        n_members = int((owners < n).sum())
        missing = too_few(n_members, len(owners) - n_members, len(some))
        out[name] = missing.score if missing else owned_pair_gap(some, written[chosen], n)
    return out


def tail_pairs_seen(counts: sparse.csr_matrix, reference: Cohort, tail: NDArray[np.bool_]) -> tuple[float, float, int]:
    """Share of pooled pairs with a tail code that the reference holds, its standard error, and their number.

    `counts` are those of the synthetic pairs. What one reference patient alone accounts for varies with who was drawn;
    that is the error.

    >>> counts = cooccurrence_counts(Cohort.of([[["A", "B"], ["A", "C"], ["B", "C"]]]))
    >>> tail_pairs_seen(counts, Cohort.of([[["A", "B"]]], ["A", "B", "C"]), np.array([True, False, False]))
    (0.5, 0.0, 2)
    """
    upper = sparse.triu(counts, k=1, format="coo")
    chosen = tail[upper.row] | tail[upper.col]
    first, second, times = upper.row[chosen], upper.col[chosen], upper.data[chosen].astype(np.float64)
    n = int(times.sum())
    if n == 0:
        return float("nan"), 0.0, 0
    seen = float(times[PairSet.of(cooccurrence_counts(reference)).holds(first, second)].sum()) / n
    alone = owned_pairs([reference])
    if not len(alone):
        return seen, 0.0, n
    chosen_counts = sparse.csr_matrix((times, (first, second)), shape=counts.shape)
    weights = np.asarray(chosen_counts[alone.first, alone.second], dtype=np.float64).ravel()
    return seen, sum_error(alone.owner, weights, reference.n_patients) / n, n


@assessed
def tail_pair_seen_gap(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """TailPairSeen against members less TailPairSeen against as many controls; strata `members` and `controls`.

    The tail is the rarest third by members and controls together, so that it favours neither.
    """
    members, controls = groups.matched()
    tail = Strata.of(members.visit_counts + controls.visit_counts, comparison.vocabulary).tail
    counts = comparison.counts(PairCounts).together
    seen, error, n = tail_pairs_seen(counts, members, tail)
    seen_control, error_control, _ = tail_pairs_seen(counts, controls, tail)
    if n == 0:
        return {ALL: Missing("no pair with a tail code was generated").score}
    return {
        ALL: normal_score(seen - seen_control, n, float(np.hypot(error, error_control)), (-1.0, 1.0)),
        "members": Score(seen, n),
        "controls": Score(seen_control, n),
    }
