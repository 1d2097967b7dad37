"""Days between visits, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.course import FEWEST_GAPS, gap_by_code, gap_distance


def pairs(n: int, gap: int, first: str = "A") -> Cohort:
    """Patients of two visits, `gap` days apart."""
    return Cohort.of([[[first], ["B"]]] * n, ["A", "B", "C"], days=np.tile([0, gap], n).astype(np.int32))


def test_gaps_that_are_all_five_days_longer_are_five_days_away():
    score = gap_distance(Comparison.of(pairs(10, 30), pairs(10, 30), pairs(4, 35)))["all"]
    assert (score.value, score.low, score.high, score.n) == (5.0, 5.0, 5.0, 4)


def test_the_gap_after_a_code_is_compared_on_the_log_scale():
    """After A it is 30 days in training and 10 in synthetic records; B and C come before no gap."""
    train = pairs(FEWEST_GAPS, 30)
    score = gap_by_code(Comparison.of(train, train, pairs(5, 10)))["all"]
    assert score.value == pytest.approx(np.log(31 / 11))
    assert score.n == 1


def test_a_code_after_which_nobody_comes_back_counts_as_anybody():
    """No synthetic gap follows A: the mean log gap of all synthetic patients, after C, stands in."""
    train = pairs(FEWEST_GAPS, 30)
    score = gap_by_code(Comparison.of(train, train, pairs(5, 30, first="C")))["all"]
    assert score.value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("measure", [gap_distance, gap_by_code])
def test_what_is_missing_is_said(measure):
    without, single = Cohort.of([[["A"], ["B"]]]), pairs(1, 3).with_visits(np.array([0]), np.array([1]))
    assert "training patients have no days" in measure(Comparison.of(without, without, pairs(3, 5)))["all"].reason
    assert "synthetic patients have no days" in measure(Comparison.of(pairs(3, 5), without, without))["all"].reason
    assert "two visits" in measure(Comparison.of(pairs(3, 5), without, single))["all"].reason


def test_few_gaps_of_a_code_teach_nothing():
    train = pairs(FEWEST_GAPS - 1, 30)
    score = gap_by_code(Comparison.of(train, train, train))["all"]
    assert score.value is None
    assert str(FEWEST_GAPS) in score.reason
