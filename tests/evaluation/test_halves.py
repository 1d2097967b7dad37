"""Means over halves of the test patients: the mean, both errors, and that the spread over halves is the right error."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.metric import Metric
from adapcla.evaluation.runner import N_HALVES, mean_of_halves, over_halves
from adapcla.evaluation.bootstrap import spread
from adapcla.evaluation.references import halves


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
    share = Metric("share", "tail", "match", lambda c: {"all": Score(float((c.test.codes == 0).mean()), 1)}, "Share.")
    draw = np.random.default_rng(1)
    errors = []
    for _ in range(30):
        test = Cohort.of([[["A" if draw.random() < 0.3 else "B"]] for _ in range(100)], ["A", "B"])
        comparisons = [Comparison.of(test, halves(test, number).reference, test) for number in range(N_HALVES)]
        own = {"share": share.compute(comparisons[0])}
        (score,) = over_halves([share], own, comparisons[1:], real=False)["share"].values()
        assert score.value == pytest.approx((test.codes == 0).mean(), abs=0.06)
        errors.append(spread(score.redrawn) ** 2)
    assert np.mean(errors) ** 0.5 == pytest.approx((0.3 * 0.7 / 100) ** 0.5, rel=0.15)
