"""The control suite: how near a generated population came to the prevalence that was asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata

from adapcla.metrics.contract import ALL, METRICS, Comparison, Score, metric
from adapcla.metrics.fidelity import synthetic_counts
from adapcla.metrics.intervals import jackknife_score
from adapcla.records import Cohort, Prevalence

#: Expected number of visits from which a single code's prevalence can be judged; the stratum `judged`.
JUDGED_FROM = 50
_Shares = NDArray[np.float64]


def mean_gap(wanted: _Shares, got: _Shares) -> float:
    """Mean absolute difference.

    >>> mean_gap(np.array([0.5, 0.1]), np.array([0.4, 0.1]))
    0.05
    """
    return float(round(np.abs(wanted - got).mean(), 15))


def max_gap(wanted: _Shares, got: _Shares) -> float:
    """Largest absolute difference.

    >>> max_gap(np.array([0.5, 0.1]), np.array([0.25, 0.1]))
    0.25
    """
    return float(np.abs(wanted - got).max())


def divergence(wanted: _Shares, got: _Shares) -> float:
    """Jensen–Shannon divergence in nats of the two prevalences, each scaled to sum to 1; NaN where one is all zero.

    >>> divergence(np.array([1.0, 0.0]), np.array([0.0, 0.2])) == np.log(2)
    np.True_
    """
    if wanted.sum() == 0 or got.sum() == 0:
        return float("nan")
    one, two = wanted / wanted.sum(), got / got.sum()
    middle = (one + two) / 2
    return float(max(0.0, (-xlogy(middle, middle) + (xlogy(one, one) + xlogy(two, two)) / 2).sum()))


def rank_correlation(wanted: _Shares, got: _Shares) -> float:
    """Spearman's correlation, NaN where either does not vary.

    >>> rank_correlation(np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.5, 0.6]))
    1.0
    """
    one, two = rankdata(wanted), rankdata(got)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return float("nan")
    return float(np.clip(np.corrcoef(one, two)[0, 1], -1.0, 1.0))


def _scores(
    comparison: Comparison, measure: Callable[[_Shares, _Shares], float], bounds: tuple[float, float]
) -> dict[str, Score]:
    """One measure over all codes with a request, over those that can be judged alone, and over head, mid and tail."""
    if comparison.target is None:
        return {ALL: Score.missing("no prevalence was asked for")}
    wanted, known = np.nan_to_num(comparison.target.share), comparison.target.known
    strata = comparison.strata
    counts = comparison.shared("code counts by group", lambda: synthetic_counts(comparison))
    shares = [one.codes / max(one.visits, 1) for one in counts]
    masks = {
        ALL: known,
        "judged": known & (wanted * comparison.synthetic.n_visits >= JUDGED_FROM),
        "head": known & strata.head,
        "mid": known & strata.mid,
        "tail": known & strata.tail,
    }
    out = {}
    for stratum, mask in masks.items():
        if not mask.any():
            out[stratum] = Score.missing("no such code has a requested prevalence")
            continue
        value, *without = (measure(wanted[mask], share[mask]) for share in shares)
        out[stratum] = jackknife_score(value, int(mask.sum()), without, bounds, "prevalence is zero or does not vary")
    return out


@metric("control_mae", suite="control", goal="down")
def control_mae(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference between requested and achieved prevalence."""
    return _scores(comparison, mean_gap, (0.0, 1.0))


@metric("control_max_gap", suite="control", goal="down", sized=True)
def control_max_gap(comparison: Comparison) -> dict[str, Score]:
    """Largest absolute difference between requested and achieved prevalence."""
    return _scores(comparison, max_gap, (0.0, 1.0))


@metric("control_jsd", suite="control", goal="down", bounds=(0.0, float(np.log(2.0))), unit="nats")
def control_jsd(comparison: Comparison) -> dict[str, Score]:
    """Divergence between requested and achieved prevalence, each scaled to sum to 1."""
    return _scores(comparison, divergence, (0.0, float(np.log(2.0))))


@metric("control_spearman", suite="control", goal="up", bounds=(-1.0, 1.0), unit="correlation")
def control_spearman(comparison: Comparison) -> dict[str, Score]:
    """Rank correlation between requested and achieved prevalence."""
    return _scores(comparison, rank_correlation, (-1.0, 1.0))


def control_scores(target: Prevalence, synthetic: Cohort, seed: int = 1) -> dict[str, Score]:
    """Every control metric over the codes with a request, by code string; a code never generated counts as 0.

    >>> scores = control_scores(Prevalence.of({"A": 0.5, "B": 0.25}), Cohort.of([[["A"]], [["B"]]]))
    >>> scores["control_mae"].value, scores["control_max_gap"].value
    (0.125, 0.25)
    """
    comparison = Comparison.of(synthetic, synthetic, synthetic, seed=seed, target=target)
    keys = [key for key, one in METRICS.items() if one.suite == "control"]
    return {key: METRICS[key].compute(comparison)[ALL] for key in keys}


def tail_change(
    train: Cohort, test: Cohort, before: Cohort, after: Cohort, seed: int = 1
) -> dict[str, tuple[Score, Score]]:
    """Each tail metric before and after control, so that a prevalence reached at the cost of the tail is seen.

    >>> train = Cohort.of([[["A", "B"]], [["A", "C"]], [["A", "B"]]])
    >>> before, after = tail_change(train, train, train, train)["pair_seen"]
    >>> before.value == after.value
    True
    """
    one, two = (Comparison.of(train, test, cohort, seed=seed) for cohort in (before, after))
    keys = [key for key, tail in METRICS.items() if tail.suite == "tail"]
    return {key: (METRICS[key].compute(one)[ALL], METRICS[key].compute(two)[ALL]) for key in keys}
