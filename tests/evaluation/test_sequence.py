"""Overlap of visits and repeats, by hand."""

from __future__ import annotations

import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import METRICS


def value(key: str, cohort: Cohort, seed: int = 1) -> float | None:
    return METRICS[key].compute(Comparison.of(cohort, cohort, cohort, seed=seed))["all"].value


def test_next_visit_overlap_by_hand():
    """{A,B}→{B,C}: 1/3. {B,C}→{B,C}: 1. The second patient's one visit has no next. Mean 2/3."""
    cohort = Cohort.of([[["A", "B"], ["B", "C"], ["B", "C"]], [["A"]]])
    assert value("next_visit_jaccard", cohort) == pytest.approx(2 / 3)


def test_identical_visits_overlap_fully_with_anybody_and_remember_nothing():
    cohort = Cohort.of([[["A"], ["A"]]] * 5)
    assert value("random_visit_jaccard", cohort) == 1.0
    assert value("next_visit_gain", cohort) == 0.0


def test_records_that_repeat_themselves_are_told_from_chance():
    """Each patient keeps one code of 50: next visits agree always, random ones about 1 time in 50."""
    cohort = Cohort.of([[[f"C{p % 50:02d}"]] * 2 for p in range(1000)])
    assert value("next_visit_jaccard", cohort) == 1.0
    assert value("next_visit_gain", cohort) == pytest.approx(0.98, abs=0.02)


def test_single_visits_have_no_next_and_say_so():
    score = METRICS["next_visit_jaccard"].compute(Comparison.of(*[Cohort.of([[["A"]]])] * 3))["all"]
    assert score.value is None
    assert "two visits" in score.reason


def test_unique_visits_count_different_sets():
    """{A,B} twice, {A}, {B}: three different of four."""
    assert value("unique_visits", Cohort.of([[["A", "B"], ["B", "A"]], [["A"], ["B"]]])) == 0.75


def test_every_set_of_ten_codes_is_another_visit():
    """All 2^10 − 1 sets of ten codes."""
    codes = [f"C{i}" for i in range(10)]
    sets = [[c for i, c in enumerate(codes) if number >> i & 1] for number in range(1, 1024)]
    assert value("unique_visits", Cohort.of([sets])) == 1.0
