"""Groups and strata: blind to who is a member, equal in size, honest about too few."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.privacy.strata import (
    RARE,
    TEST_AS_CONTROL,
    UNIQUE_PAIR,
    Groups,
    assessed,
    first_patients,
    holds_any,
    too_few,
    unassessable,
)

VOCABULARY = list("ABCR")


def _comparison(control: bool = True) -> Comparison:
    """12 members hold A, one of them R; 6 controls hold A and B in one visit, except one who holds A and C."""
    train = Cohort.of([[["A"]]] * 11 + [[["A"], ["R"]]], VOCABULARY)
    other = Cohort.of([[["A", "B"]]] * 5 + [[["A", "C"]]], VOCABULARY)
    synthetic = Cohort.of([[["B"]]], VOCABULARY)
    return Comparison.of(train, other, synthetic, control=other if control else None)


def test_strata_follow_counts_over_both_groups() -> None:
    """Holders: A 18, B 5, C 1, R 1. Rare are B, C, R: one member and all six controls. The pair AC is one control's."""
    made = Groups.of(_comparison())
    assert made.holders.tolist() == [18, 5, 1, 1]
    masks = made.masks()
    assert [int(mask.sum()) for mask in masks[ALL]] == [12, 6]
    assert [int(mask.sum()) for mask in masks[RARE]] == [1, 6]
    assert [int(mask.sum()) for mask in masks[UNIQUE_PAIR]] == [0, 1]


def test_matched_groups_have_the_size_of_the_smaller() -> None:
    made = Groups.of(_comparison())
    assert [cohort.n_patients for cohort in made.matched()] == [6, 6]
    assert [cohort.n_patients for cohort in made.matched(4)] == [4, 4]


def test_the_rows_lead_back_to_the_cohorts() -> None:
    comparison = _comparison()
    made = Groups.of(comparison)
    assert list(comparison.train.subset(made.member_rows).patients()) == list(made.members.patients())


def test_without_controls_the_test_patients_serve_and_every_score_says_so() -> None:
    @assessed
    def one(comparison: Comparison, made: Groups) -> dict[str, Score]:
        return {ALL: Score(1.0, 1)}

    assert one(_comparison(control=False))[ALL].reason == TEST_AS_CONTROL
    assert one(_comparison())[ALL].reason == ""


def test_synthetic_patients_that_are_the_controls_are_not_assessed() -> None:
    comparison = _comparison()
    same = Comparison.of(comparison.train, comparison.test, comparison.test)
    assert unassessable(same).reason == "the synthetic patients are the control patients themselves"
    nobody = Comparison.of(comparison.train, comparison.test, comparison.synthetic.subset([]))
    assert unassessable(nobody).reason == "no synthetic patients"


def test_fifty_of_each_are_enough_and_forty_nine_are_not() -> None:
    assert too_few(50, 50) is None
    assert "49 controls" in too_few(500, 49).reason


def test_holding_any_of_some_codes() -> None:
    """Of {A}{R}, {B}, {R, C} the first and the last hold R."""
    cohort = Cohort.of([[["A"], ["R"]], [["B"]], [["R", "C"]]], VOCABULARY)
    assert holds_any(cohort, np.array([False, False, False, True])).tolist() == [True, False, True]
    assert holds_any(cohort.subset([]), np.ones(4, dtype=bool)).tolist() == []
    assert first_patients(cohort, 9) is cohort
