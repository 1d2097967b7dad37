"""Means, paired differences and rank correlations, each with its number of cases and an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from adapcla.evaluation.bootstrap import LEVEL, bootstrap_sums
from adapcla.seeds import random_stream

# ---- estimates -----------------------------------------------------------------------------------------------
#: Bootstrap draws of an interval, and of one that needs new ranks each time.
DRAWS, RANK_DRAWS = 1000, 300


class MeanEstimate(NamedTuple):
    """A mean, its spread over the cases and a bootstrap interval over the groups they come in."""

    mean: float
    std: float
    low: float
    high: float
    n: int


class PairedDifference(NamedTuple):
    """The mean of paired differences with an interval, and Wilcoxon's two-sided signed-rank p."""

    difference: float
    low: float
    high: float
    p: float
    n: int


class Correlation(NamedTuple):
    """Spearman's rank correlation with its p and a bootstrap interval; NaN where one side does not vary."""

    rho: float
    p: float
    low: float
    high: float
    n: int


def group_means(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of each group that occurs, in ascending order of group.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 4])).tolist()
    [2.0, 5.0]
    """
    _, which = np.unique(groups, return_inverse=True)
    return np.bincount(which, weights=values) / np.bincount(which)


def estimate(values: NDArray[np.float64], groups: NDArray[np.int64] | None = None, seed: int = 1) -> MeanEstimate:
    """The mean over all cases; whole groups (all probes of a context) are resampled, because they are alike.

    >>> estimate(np.array([2.0, 2.0, 2.0]))
    MeanEstimate(mean=2.0, std=0.0, low=2.0, high=2.0, n=3)
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0:
        return MeanEstimate(np.nan, np.nan, np.nan, np.nan, 0)
    _, which = np.unique(np.arange(len(values)) if groups is None else groups, return_inverse=True)
    tallies = np.stack([np.bincount(which, weights=values), np.bincount(which).astype(np.float64)], axis=1)
    std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
    low, high = _bounds(tallies, seed) if len(tallies) > 1 else (np.nan, np.nan)
    return MeanEstimate(float(values.mean()), std, low, high, len(values))


def _bounds(tallies: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Percentile bounds of the ratio of two columns under resampled rows."""
    sums = bootstrap_sums(tallies, seed, DRAWS)
    drawn = sums[sums[:, 1] > 0]
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def paired_difference(first: NDArray[np.float64], second: NDArray[np.float64], seed: int = 1) -> PairedDifference:
    """How much larger `first` is than `second`, case by case.

    >>> result = paired_difference(np.arange(10.0) + 1, np.arange(10.0))
    >>> result.difference, result.p < 0.01, result.n
    (1.0, True, 10)
    """
    gap = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    interval = estimate(gap, seed=seed)
    # All zero is no evidence either way; the test has nothing to rank then.
    p = float(stats.wilcoxon(gap).pvalue) if gap.any() else 1.0
    return PairedDifference(interval.mean, interval.low, interval.high, p if len(gap) else np.nan, interval.n)


def spearman(
    x: NDArray[np.float64], y: NDArray[np.float64], seed: int = 1, groups: NDArray[np.int64] | None = None
) -> Correlation:
    """The rank correlation of two columns; the interval resamples whole groups, the p takes cases as independent.

    >>> spearman(np.arange(20.0), np.arange(20.0) ** 3).rho
    1.0
    >>> spearman(np.ones(5), np.arange(5.0)).rho
    nan
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(np.nan, np.nan, np.nan, np.nan, len(x))
    correlation = stats.spearmanr(x, y)
    _, which = np.unique(np.arange(len(x)) if groups is None else groups, return_inverse=True)
    members = [np.flatnonzero(which == group) for group in range(which.max() + 1)]
    random = random_stream(seed, "spearman")
    drawn = []
    for _ in range(RANK_DRAWS):
        rows = np.concatenate([members[group] for group in random.integers(0, len(members), len(members))])
        drawn.append(_rank_correlation(x[rows], y[rows]))
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Correlation(
        float(round(correlation.statistic, 12)), float(correlation.pvalue), float(low), float(high), len(x)
    )


def _rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson's correlation of the ranks; NaN where one side does not vary.

    >>> _rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([3.0, 2.0, 1.0]))
    -1.0
    """
    one, two = (stats.rankdata(side) - (len(side) + 1) / 2 for side in (x, y))
    size = np.sqrt((one @ one) * (two @ two))
    return float(one @ two / size) if size > 0 else float("nan")
