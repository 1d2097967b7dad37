"""Intervals: by hand where a hand can, by coverage where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.evaluation.contract import Comparison
from adapcla.evaluation.intervals import (
    KEPT_DRAWS,
    bootstrap_sums,
    both_errors,
    counts_without_groups,
    groups_of,
    jackknife_interval,
    jackknife_score,
    mean_half,
    patient_groups,
    ratio_scores,
    resampled,
    spread,
    wilson,
)


def comparison(n_patients: int, intervals: bool = True) -> Comparison:
    cohort = Cohort.of([[["A", "B"]]] * n_patients)
    return Comparison.of(cohort, cohort, cohort, intervals=intervals)


@pytest.mark.parametrize(("k", "n"), [(0, 20), (3, 7), (20, 20), (500, 1000)])
def test_wilson_agrees_with_scipy(k: int, n: int):
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high))


def test_wilson_is_exact_at_the_ends():
    assert all(wilson(0, n)[0] == 0.0 and wilson(n, n)[1] == 1.0 for n in range(1, 500))


def test_wilson_of_nothing_is_everything():
    assert wilson(0, 0) == (0.0, 1.0)


def test_poisson_weights_have_mean_and_variance_one():
    weights = resampled(20_000, seed=3, draws=20).astype(float)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)


def test_bootstrap_of_a_large_cohort_does_not_repeat_its_blocks():
    """Two blocks with the same weights would double, not add, the variance: 40,000 ones have variance 40,000."""
    sums = bootstrap_sums(np.ones((40_000, 1)), seed=1, draws=400)
    assert sums.var() == pytest.approx(40_000, rel=0.3)


def test_ratio_is_pooled_and_not_a_mean_of_ratios():
    """Patients with 1 of 1 and 0 of 3: pooled 1/4, mean of ratios 1/2."""
    (score,) = ratio_scores(comparison(2), np.array([[1], [0]]), np.array([[1], [3]]), ["none"])
    assert (score.value, score.n) == (0.25, 4)


def test_ratio_without_denominator_is_missing_with_its_reason():
    scores = ratio_scores(comparison(2), np.zeros((2, 2)), np.array([[0, 1], [0, 1]]), ["first is empty", "unused"])
    assert scores[0].value is None
    assert scores[0].reason == "first is empty"
    assert scores[1].value == 0.0


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    """A rate of 0.3 over 300 patients; of 200 experiments about 190 intervals hold it, more than 178 surely."""
    draw = np.random.default_rng(5)
    held = 0
    for seed in range(200):
        hits = (draw.random((300, 1)) < 0.3).astype(float)
        one = Comparison(*[Cohort.of([[["A"]]])] * 3, seed=seed)
        (score,) = ratio_scores(one, hits, np.ones((300, 1)), ["none"])
        assert score.low is not None and score.high is not None
        held += score.low <= 0.3 <= score.high
    assert 178 <= held <= 199


def test_no_interval_where_none_is_wanted_or_possible():
    (plain,) = ratio_scores(comparison(2, intervals=False), np.ones((2, 1)), np.ones((2, 1)), ["none"])
    (single,) = ratio_scores(comparison(1), np.ones((1, 1)), np.ones((1, 1)), ["none"])
    assert plain.low is plain.high is single.low is single.high is None
    assert groups_of(comparison(2, intervals=False)) is None
    assert groups_of(comparison(1)) is None


def test_jackknife_of_a_mean_is_the_classical_standard_error():
    """x = 1, 2, 3, 4: the mean without each is 3, 8/3, 7/3, 2; its jackknife error is s/√n = √(5/3)/2 = 0.6455."""
    values = np.array([1.0, 2.0, 3.0, 4.0])
    without = (values.sum() - values) / 3
    low, high = jackknife_interval(2.5, without, (-np.inf, np.inf))
    assert low is not None and high is not None
    t_of_three_degrees = 3.1824
    assert (high - low) / 2 == pytest.approx(t_of_three_degrees * np.sqrt(5 / 3) / 2, rel=1e-4)


def test_jackknife_stays_inside_the_bounds_and_gives_up_on_a_hole():
    assert jackknife_interval(0.5, np.array([0.0, 1.0]), (0.0, 1.0)) == (0.0, 1.0)
    assert jackknife_interval(0.5, np.array([0.0, np.nan]), (0.0, 1.0)) == (None, None)
    assert jackknife_score(float("nan"), 2, [], (0, 1), "why").reason == "why"


def test_groups_are_even_seeded_and_never_more_than_patients():
    assert np.bincount(patient_groups(41, seed=1)).tolist() == [3] + [2] * 19
    assert patient_groups(3, seed=1).max() == 2
    assert (patient_groups(50, seed=1) == patient_groups(50, seed=1)).all()
    assert (patient_groups(50, seed=1) != patient_groups(50, seed=2)).any()


def test_counts_without_a_group_are_the_counts_of_the_others():
    cohort = Cohort.of([[["A", "B"]], [["B", "C"]], [["A", "B"]]])
    one = Comparison.of(cohort, cohort, cohort)
    groups = groups_of(one)
    assert groups is not None
    for group, rest in enumerate(counts_without_groups(one, cooccurrence_counts(cohort), cooccurrence_counts)):
        expected = cooccurrence_counts(cohort.subset(np.flatnonzero(groups != group)))
        assert (rest != expected).nnz == 0
        assert rest.nnz == expected.nnz


def test_both_errors_by_hand():
    """Fits 1, 3: s² = 2, s²/n = 1 with one degree of freedom; with test patients of variance 3, 4 with 4²·1/1² = 16."""
    assert both_errors([1.0, 3.0]) == (pytest.approx(1.0), 1.0)
    assert both_errors([1.0, 3.0], inside=3**0.5) == (pytest.approx(2.0), pytest.approx(16.0))
    assert both_errors([2.0, 2.0], inside=0.5) == (0.5, np.inf)
    assert mean_half([2.0, 2.0], inside=0.5) == pytest.approx(1.96 * 0.5, rel=1e-3)


@pytest.mark.parametrize(("shared", "own"), [(1.0, 0.2), (1.0, 1.0), (0.2, 1.0)])
def test_intervals_of_both_errors_hold_the_truth_as_often_as_they_say(shared: float, own: float):
    """Scores are means over 200 test patients whom three fits share, and the luck of each fit; the truth is 0.

    The spread over fits alone, which is what the test patients have no part in, holds it far less often.
    """
    draw = np.random.default_rng(7)
    held, alone = 0, 0
    n_times, n_patients = 400, 200
    for _ in range(n_times):
        patients = draw.normal(0, shared * n_patients**0.5, n_patients)
        fits = patients.mean() + draw.normal(0, own, 3)
        weights = draw.poisson(1.0, (KEPT_DRAWS, n_patients))
        inside = spread(weights @ patients / weights.sum(axis=1))
        held += abs(fits.mean()) <= mean_half(fits, inside)
        alone += abs(fits.mean()) <= mean_half(fits)
    assert 0.92 <= held / n_times <= 0.99
    if shared >= own:
        assert alone / n_times < 0.9


def test_draws_of_judges_are_kept_and_those_of_synthetic_patients_are_not():
    tops = np.arange(20.0)[:, None]
    (plain,) = ratio_scores(comparison(20), tops, np.ones((20, 1)), ["none"])
    (judged,) = ratio_scores(comparison(20), tops, np.ones((20, 1)), ["none"], judges=True)
    assert plain.redrawn == () and len(judged.redrawn) == KEPT_DRAWS
    assert spread(judged.redrawn) == pytest.approx(np.std(tops) / 20**0.5, rel=0.3)
