"""A metric is a function with its goal and bounds; a comparison puts cohorts on one vocabulary."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort, Prevalence
from adapcla.evaluation.comparison import Comparison, Missing, Score


def test_cohorts_meet_by_code_string_never_by_position():
    """B is code 1 of train and code 0 of the synthetic cohort; on the union {A, B, C} it is code 1 in both."""
    train, other = Cohort.of([[["A", "B"]]]), Cohort.of([[["B", "C"]]])
    comparison = Comparison.of(train, train, other)
    assert comparison.vocabulary.tokens == ("A", "B", "C")
    assert comparison.synthetic.codes.tolist() == [1, 2]
    assert comparison.train.codes.tolist() == [0, 1]


def test_target_codes_outside_every_cohort_stay_in_the_comparison():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train, target=Prevalence.of({"A": 0.5, "Z": 0.25}))
    assert comparison.vocabulary.tokens == ("A", "Z")
    assert comparison.target is not None
    assert comparison.target.share.tolist() == [0.5, 0.25]


def test_work_on_real_cohorts_is_kept_across_references_and_work_on_the_synthetic_one_is_not():
    train, made = Cohort.of([[["A"]], [["B"]]]), Cohort.of([[["A"]]], ["A", "B"])
    calls: list[int] = []

    def count(cohort: Cohort) -> int:
        calls.append(cohort.n_patients)
        return cohort.n_patients

    first = Comparison.of(train, train, made)
    second = first.with_synthetic(train.subset([0, 0, 0]))
    assert [c.of_cohort(count, c.train) for c in (first, second, first)] == [2, 2, 2]
    assert calls == [2]
    assert [c.of_cohort(count, c.synthetic) for c in (first, second, second)] == [1, 3, 3]
    assert calls == [2, 1, 3]


def test_another_synthetic_cohort_does_not_inherit_evidence():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train, evidence={"member_scores": np.zeros(1)})
    assert comparison.with_synthetic(train).evidence == {}


def test_shared_work_is_done_once_for_each_function_and_its_arguments():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train)
    calls: list[int] = []

    def work(one: Comparison, number: int) -> int:
        calls.append(number)
        return number

    assert [comparison.once(work, number) for number in (1, 2, 1)] == [1, 2, 1]
    assert calls == [1, 2]
    comparison.with_synthetic(train).once(work, 1)
    assert calls == [1, 2, 1]


def test_a_missing_score_says_why():
    assert Missing("nothing there", 3).score == Score(None, 3, None, None, "nothing there")
