"""The tail suite: do generated codes, and rare ones above all, stand with the codes they stand with in reality?

Each metric comes twice: against the training visits, as in the paper, where a photocopier is perfect, and with
`_heldout` against the test visits, where it is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts, visit_pairs, visits_with_neighbours
from adapcla.data.prevalence import COUNT_BANDS, COUNT_CUTS, TAIL_CUTS
from adapcla.evaluation.contract import ALL, Comparison, Missing, Real, Score
from adapcla.evaluation.intervals import counts_without_groups, jackknife_interval, ratio_scores
from adapcla.evaluation.neighbours import Contexts, Neighbours

Mask = NDArray[np.bool_]
#: The largest divergence of two distributions, in nats.
LOG2 = float(np.log(2.0))
#: Each real cohort with the ending of the metrics that compare with it.
_ENDINGS: dict[Real, str] = {"train": "", "test": "_heldout"}


def tail_strata(comparison: Comparison) -> dict[str, Mask]:
    """The sets of codes that tail scores are given for: cuts by rank and by count, count bands, tails of domains.

    >>> train = Cohort.of([[["A", "B", "C"], ["B", "C"], ["C"]]])
    >>> sorted(tail_strata(Comparison.of(train, train, train)))
    ['1', '2-5', '21+', '6-20', 'all', 'rare20', 'singletons', 'up to 100', 'up to 20', 'up to 5']
    """
    strata = comparison.strata
    out = {ALL if cut == TAIL_CUTS[0] else cut: strata.cut(cut) for cut in TAIL_CUTS}
    out.update({band: strata.band(band) for band in COUNT_BANDS})
    out.update({cut: strata.cut(cut) for cut in COUNT_CUTS})
    out.update({name: strata.tail & mask for name, mask in domain_strata(comparison).items()})
    return out


def domain_strata(comparison: Comparison) -> dict[str, Mask]:
    """The codes of each domain as `domain:NAME`, where there are several domains.

    >>> train = Cohort.of([[["A"]]])
    >>> domain_strata(Comparison.of(train, train, train))
    {}
    """
    domains = comparison.vocabulary.domains
    if len(domains) < 2:
        return {}
    return {f"domain:{name}": comparison.vocabulary.domain_mask(name) for name in domains}


# ---- pairs seen in reality ----------------------------------------------------------------------------------
def pair_scores(key: str, comparison: Comparison) -> dict[str, Score]:
    """The scores of one metric of pairs, by stratum."""
    return comparison.once(_all_pair_scores)[key]


def _all_pair_scores(comparison: Comparison) -> dict[str, dict[str, Score]]:
    """All scores of pairs seen, by metric key and stratum, from one pass over the generated pairs."""
    everything = {ALL: np.ones(len(comparison.vocabulary), dtype=bool), **domain_strata(comparison)}
    tails = tail_strata(comparison)
    n_pairs, n_seen = _pair_tallies(comparison, [*everything.values(), *tails.values()])
    reasons = ["no visit of two codes was generated"] * len(everything)
    reasons += [
        "training has no such code" if not mask.any() else "no such code was generated with a neighbour"
        for mask in tails.values()
    ]
    out: dict[str, dict[str, Score]] = {}
    for real, ending in _ENDINGS.items():
        scores = ratio_scores(comparison, n_seen[real], n_pairs, reasons)
        out["pair_seen" + ending] = dict(zip(everything, scores, strict=False))
        out["tail_pair_seen" + ending] = dict(zip(tails, scores[len(everything) :], strict=True))
    return out


def _pair_tallies(
    comparison: Comparison, masks: list[Mask]
) -> tuple[NDArray[np.float64], dict[Real, NDArray[np.float64]]]:
    """Patients × strata: pairs with at least one code of the stratum, and those of them seen in train and in test."""
    if not comparison.intervals:
        return _pooled_tallies(comparison, masks)
    n = comparison.synthetic.n_patients
    real_pairs = {real: comparison.of_cohort(Neighbours.of, comparison.real(real)).pairs for real in _ENDINGS}
    n_pairs = np.zeros((n, len(masks)))
    n_seen = {real: np.zeros((n, len(masks))) for real in _ENDINGS}
    for first, second, patient in visit_pairs(comparison.synthetic):
        seen = {real: pairs.holds(first, second) for real, pairs in real_pairs.items()}
        for k, mask in enumerate(masks):
            inside = mask[first] | mask[second]
            n_pairs[:, k] += np.bincount(patient[inside], minlength=n)
            for real, hit in seen.items():
                n_seen[real][:, k] += np.bincount(patient[inside & hit], minlength=n)
    return n_pairs, n_seen


def _pooled_tallies(
    comparison: Comparison, masks: list[Mask]
) -> tuple[NDArray[np.float64], dict[Real, NDArray[np.float64]]]:
    """The same over all patients together, in one row: each different pair is looked up once."""
    counts = sparse.triu(comparison.of_cohort(Neighbours.of, comparison.synthetic).counts, format="coo")
    inside = np.stack([mask[counts.row] | mask[counts.col] for mask in masks]).astype(np.float64)
    n_seen: dict[Real, NDArray[np.float64]] = {}
    for real in _ENDINGS:
        pairs = comparison.of_cohort(Neighbours.of, comparison.real(real)).pairs
        n_seen[real] = (inside @ (counts.data * pairs.holds(counts.row, counts.col)))[None, :]
    return (inside @ counts.data)[None, :], n_seen


# ---- contexts of single codes -------------------------------------------------------------------------------
def context_scores(key: str, comparison: Comparison) -> dict[str, Score]:
    """The scores of one metric of contexts, by stratum."""
    return comparison.once(_all_context_scores)[key]


class _Measures:
    """Measures synthetic contexts against the contexts of one real cohort, for all strata at once."""

    def __init__(self, comparison: Comparison, cohort: Cohort, masks: dict[str, Mask]) -> None:
        self.contexts = comparison.of_cohort(Neighbours.of, cohort).contexts
        self.weight = visits_with_neighbours(cohort).astype(np.float64)
        self.masks = masks

    def of(self, synthetic: Contexts) -> dict[tuple[str, str], tuple[float, int]]:
        """(value, codes behind it) by (metric, stratum); NaN where there is nothing to score."""
        divergence = self.contexts.divergence(synthetic)
        shared = self.contexts.shared_top(synthetic)
        out = {}
        for stratum, mask in self.masks.items():
            known = mask & (self.weight > 0)
            generated = known & synthetic.exists
            left_out = 1 - generated.sum() / mask.sum() if mask.any() else np.nan
            out["tail_ctx_jsd", stratum] = (_mean(divergence, self.weight, generated), int(generated.sum()))
            out["tail_ctx_left_out", stratum] = (float(left_out), int(mask.sum()))
            out["tail_topk_jac", stratum] = (_mean(shared, self.weight, known), int(known.sum()))
        return out


def _mean(values: NDArray[np.float64], weight: NDArray[np.float64], where: Mask) -> float:
    """The weighted mean over some codes, NaN over none."""
    return float(np.average(values[where], weights=weight[where])) if where.any() else np.nan


def _all_context_scores(comparison: Comparison) -> dict[str, dict[str, Score]]:
    """All scores of contexts, by metric key and stratum, with jackknife intervals from one pass over the groups."""
    masks = tail_strata(comparison)
    synthetic = comparison.of_cohort(Neighbours.of, comparison.synthetic)
    measures = {real: _Measures(comparison, comparison.real(real), masks) for real in _ENDINGS}
    # One group at a time: the contexts of all groups together would not fit into memory.
    without = [
        {real: measure.of(contexts) for real, measure in measures.items()}
        for contexts in map(Contexts.of, counts_without_groups(comparison, synthetic.counts, cooccurrence_counts))
    ]
    out: dict[str, dict[str, Score]] = {}
    for real, ending in _ENDINGS.items():
        for (key, stratum), (value, n) in measures[real].of(synthetic.contexts).items():
            values = np.array([group[real][key, stratum][0] for group in without])
            out.setdefault(key + ending, {})[stratum] = _context_score(key, value, n, values, masks[stratum])
    return out


def _context_score(key: str, value: float, n: int, without: NDArray[np.float64], mask: Mask) -> Score:
    """A score, or why there is none."""
    if not np.isfinite(value):
        if not mask.any():
            return Missing("training has no such code").score
        generated = "was generated with" if key == "tail_ctx_jsd" else "has"
        return Missing(f"no such code {generated} a neighbour").score
    bounds = (0.0, LOG2 if key == "tail_ctx_jsd" else 1.0)
    low, high = jackknife_interval(value, without, bounds) if len(without) else (None, None)
    return Score(value, n, low, high)
