"""A metric is a function with its goal and bounds; a comparison puts cohorts on one vocabulary."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.metrics.contract import METRICS, Comparison, Score, finite, metric
from adapcla.records import Cohort, Prevalence


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
    second = first.instead(train.subset([0, 0, 0]))
    assert [c.of_cohort("size", c.train, count) for c in (first, second, first)] == [2, 2, 2]
    assert calls == [2]
    assert [c.of_cohort("size", c.synthetic, count) for c in (first, second)] == [1, 3]


def test_another_synthetic_cohort_does_not_inherit_evidence():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train, evidence={"member_scores": np.zeros(1)})
    assert comparison.instead(train).evidence == {}


def test_shared_work_is_done_once():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train)
    values = iter([1, 2])
    assert [comparison.shared("x", lambda: next(values)) for _ in range(2)] == [1, 1]


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two metrics"):
        for _ in range(2):

            @metric("only_in_this_test", suite="none", goal="up")
            def compute(comparison: Comparison) -> dict[str, Score]:
                """A summary."""
                return {}

    assert METRICS.pop("only_in_this_test").summary == "A summary."


def test_a_missing_score_says_why():
    assert Score.missing("nothing there", 3) == Score(None, 3, None, None, "nothing there")
    assert finite(float("inf")) is None
    assert finite(0.5) == 0.5
