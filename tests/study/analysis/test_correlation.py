"""Estimates, paired differences and correlations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from adapcla.study.analysis.correlation import estimate, paired_difference, spearman


# ---- statistics ----------------------------------------------------------------------------------------------
def test_groups_are_resampled_whole():
    """Two values per group, equal within: the interval is that of the two-fold repeated group means, not narrower."""
    draw = np.random.default_rng(1)
    means = draw.normal(size=40)
    alone = estimate(means, np.arange(40))
    doubled = estimate(np.repeat(means, 2), np.repeat(np.arange(40), 2))
    assert doubled.n == 80
    assert (doubled.low, doubled.high) == pytest.approx((alone.low, alone.high))


def test_the_interval_covers_a_known_mean_about_as_often_as_it_says():
    draw = np.random.default_rng(2)
    hits = 0
    for seed in range(100):
        found = estimate(draw.exponential(size=60), seed=seed)
        hits += found.low <= 1.0 <= found.high
    assert 85 <= hits <= 100


def test_paired_agrees_with_scipy_and_sees_no_difference_in_equal_columns():
    draw = np.random.default_rng(3)
    one, two = draw.normal(size=30), draw.normal(size=30)
    found = paired_difference(one, two)
    assert found.p == pytest.approx(stats.wilcoxon(one - two).pvalue)
    assert found.difference == pytest.approx((one - two).mean())
    assert paired_difference(one, one).p == 1.0


def test_spearman_agrees_with_scipy_and_its_interval_holds_it():
    draw = np.random.default_rng(4)
    x = draw.normal(size=80)
    y = x + draw.normal(size=80)
    found = spearman(x, y)
    assert found.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.low < found.rho < found.high


def test_nothing_is_claimed_of_nothing():
    assert estimate(np.zeros(0)).n == 0
    assert np.isnan(spearman(np.zeros(2), np.zeros(2)).rho)


def test_repeating_every_case_within_its_group_tells_nothing_new():
    draw = np.random.default_rng(5)
    x, y = draw.normal(size=(2, 40))
    once = spearman(x, y)
    thrice = spearman(np.repeat(x, 3), np.repeat(y, 3), groups=np.repeat(np.arange(40), 3))
    blind = spearman(np.repeat(x, 3), np.repeat(y, 3))
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=0.1)
    assert blind.high - blind.low < 0.75 * (once.high - once.low)
