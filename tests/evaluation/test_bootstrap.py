"""Intervals: by hand where a hand can, by coverage where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from adapcla.data import Cohort
from adapcla.evaluation.bootstrap import (
    PatientSums,
    bootstrap_sums,
    jackknife_interval,
    jackknife_score,
    mean_of_halves,
    poisson_weights,
    ratio_scores,
    wilson,
)
from adapcla.evaluation.comparison import Comparison, Missing, Score
from adapcla.evaluation.references import halves
from adapcla.evaluation.runner import N_HALVES


def ratio(one: Comparison, top: list[float], bottom: list[float]) -> Score:
    sums = {"all": PatientSums(np.array(top), np.array(bottom), "nothing there")}
    return ratio_scores(one, [sums])["all"]


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
    weights = poisson_weights(20_000, seed=3, draws=20).astype(float)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)


def test_bootstrap_of_a_large_cohort_does_not_repeat_its_blocks():
    """Two blocks with the same weights would double, not add, the variance: 40,000 ones have variance 40,000."""
    sums = bootstrap_sums(np.ones((40_000, 1)), seed=1, draws=400)
    assert sums.var() == pytest.approx(40_000, rel=0.3)


def test_ratio_is_pooled_and_not_a_mean_of_ratios():
    """Patients with 1 of 1 and 0 of 3: pooled 1/4, mean of ratios 1/2."""
    score = ratio(comparison(2), [1, 0], [1, 3])
    assert (score.value, score.n) == (0.25, 4)


def test_ratio_without_denominator_is_missing_with_its_reason():
    nothing = np.zeros(2)
    sums = {
        "empty": PatientSums(nothing, nothing, "why"),
        "other": Missing("no code"),
        "all": PatientSums(nothing, nothing + 1, ""),
    }
    scores = ratio_scores(comparison(2), [sums])
    assert list(scores) == ["empty", "other", "all"]
    assert [(score.value, score.reason) for score in scores.values()] == [(None, "why"), (None, "no code"), (0.0, "")]


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    """A rate of 0.3 over 300 patients; of 200 experiments about 190 intervals hold it, more than 178 surely."""
    draw = np.random.default_rng(5)
    held = 0
    for seed in range(200):
        hits = (draw.random(300) < 0.3).astype(float)
        one = Comparison(*[Cohort.of([[["A"]]])] * 3, seed=seed)
        score = ratio(one, hits, np.ones(300))
        assert score.low is not None and score.high is not None
        held += score.low <= 0.3 <= score.high
    assert 178 <= held <= 199


def test_no_interval_where_none_is_wanted_or_possible():
    plain, single = ratio(comparison(2, intervals=False), [1, 1], [1, 1]), ratio(comparison(1), [1], [1])
    assert plain.low is plain.high is single.low is single.high is None
    assert not comparison(2, intervals=False).can_leave_out and not comparison(1).can_leave_out


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


# ---- halves of the test patients ----------------------------------------------------------------------------
def test_both_errors_are_in_the_interval_and_those_of_real_patients_once():
    """Halves 1, 2, 3 have the standard deviation 1, Student's factor of two degrees of freedom is 4.3027."""
    own = Score(1.0, 10, -2.0, 4.0)
    score = mean_of_halves(own, [1.0, 2.0, 3.0], (-99.0, 99.0))
    assert (score.value, score.n) == (2.0, 10)
    assert score.high - 2.0 == pytest.approx((4.3027**2 + 3.0**2) ** 0.5, rel=1e-4)
    assert mean_of_halves(own, [1.0, 2.0, 3.0], (-99.0, 99.0), real=True).high - 2.0 == pytest.approx(4.3027, rel=1e-4)


def test_what_some_half_cannot_give_stays_the_score_of_the_first():
    missing = Score(None, 0, reason="why")
    assert mean_of_halves(missing, [None, 0.5]) is missing
    one = Score(0.5, 3)
    assert mean_of_halves(one, [0.5, None]) is one


def test_the_spread_over_halves_is_the_error_of_their_mean():
    """The share of test patients with code A: over many test cohorts its error is √(p(1−p)/n)."""
    draw = np.random.default_rng(1)
    errors = []
    for _ in range(30):
        test = Cohort.of([[["A" if draw.random() < 0.3 else "B"]] for _ in range(100)], ["A", "B"])
        values = [float((halves(test, number).reference.codes == 0).mean()) for number in range(N_HALVES)]
        score = mean_of_halves(Score(values[0], 1), values)
        assert score.value == pytest.approx((test.codes == 0).mean(), abs=0.06)
        errors.append(np.var(values, ddof=1))
    assert np.mean(errors) ** 0.5 == pytest.approx((0.3 * 0.7 / 100) ** 0.5, rel=0.15)
