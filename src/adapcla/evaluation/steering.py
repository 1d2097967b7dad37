"""The suite `control`: how near a steered population came to the requested prevalence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata

from adapcla.data import Prevalence
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import synthetic_counts
from adapcla.evaluation.intervals import jackknife_score

#: Expected number of visits from which a single code's prevalence can be judged; the stratum `judged`.
JUDGED_FROM = 50
_Shares = NDArray[np.float64]


def mean_gap(requested: _Shares, achieved: _Shares) -> float:
    """Mean absolute difference.

    >>> mean_gap(np.array([0.5, 0.1]), np.array([0.4, 0.1]))
    0.05
    """
    return float(round(np.abs(requested - achieved).mean(), 15))


def max_gap(requested: _Shares, achieved: _Shares) -> float:
    """Largest absolute difference.

    >>> max_gap(np.array([0.5, 0.1]), np.array([0.25, 0.1]))
    0.25
    """
    return float(np.abs(requested - achieved).max())


def divergence(requested: _Shares, achieved: _Shares) -> float:
    """Jensen–Shannon divergence in nats of the two prevalences, each scaled to sum to 1; NaN where one is all zero.

    >>> divergence(np.array([1.0, 0.0]), np.array([0.0, 0.2])) == np.log(2)
    np.True_
    """
    if requested.sum() == 0 or achieved.sum() == 0:
        return float("nan")
    one, two = requested / requested.sum(), achieved / achieved.sum()
    middle = (one + two) / 2
    return float(max(0.0, (-xlogy(middle, middle) + (xlogy(one, one) + xlogy(two, two)) / 2).sum()))


def rank_correlation(requested: _Shares, achieved: _Shares) -> float:
    """Spearman's correlation, NaN where either does not vary.

    >>> rank_correlation(np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.5, 0.6]))
    1.0
    """
    one, two = rankdata(requested), rankdata(achieved)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return float("nan")
    return float(np.clip(np.corrcoef(one, two)[0, 1], -1.0, 1.0))


def _masks(comparison: Comparison, target: Prevalence) -> dict[str, NDArray[np.bool_]]:
    """The requested codes of each stratum."""
    strata = comparison.strata
    return {
        ALL: target.known,
        "judged": target.known & (np.nan_to_num(target.share) * comparison.synthetic.n_visits >= JUDGED_FROM),
        "head": target.known & strata.head,
        "mid": target.known & strata.mid,
        "tail": target.known & strata.tail,
    }


def sampling_floor(comparison: Comparison) -> dict[str, Score]:
    """The mean gap that sampling alone would leave in as many independent visits of the requested prevalence."""
    if comparison.target is None:
        return {ALL: Missing("no prevalence was asked for").score}
    gaps = comparison.target.sampling_gap(comparison.synthetic.n_visits)
    return {
        stratum: Score(float(gaps[mask].mean()), int(mask.sum()))
        if mask.any()
        else Missing("no such code has a requested prevalence").score
        for stratum, mask in _masks(comparison, comparison.target).items()
    }


def steering_scores(
    measure: Callable[[_Shares, _Shares], float], bounds: tuple[float, float], comparison: Comparison
) -> dict[str, Score]:
    """One measure over all codes with a request, over those that can be judged alone, and over head, mid and tail."""
    if comparison.target is None:
        return {ALL: Missing("no prevalence was asked for").score}
    requested = np.nan_to_num(comparison.target.share)
    shares = [counts.codes / max(counts.visits, 1) for counts in comparison.once(synthetic_counts)]
    out = {}
    for stratum, mask in _masks(comparison, comparison.target).items():
        if not mask.any():
            out[stratum] = Missing("no such code has a requested prevalence").score
            continue
        value, *without = (measure(requested[mask], share[mask]) for share in shares)
        out[stratum] = jackknife_score(value, int(mask.sum()), without, bounds, "prevalence is zero or does not vary")
    return out
