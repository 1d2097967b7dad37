"""Suites: what stands for the best and the worst answer, and that nothing is its own ceiling."""

from __future__ import annotations

from adapcla.evaluation.references import Reference
from adapcla.evaluation.metric import PLAIN_SUITES, SUITES, ceiling_of, references_of
from adapcla.evaluation.metric import METRICS


def test_utility_is_never_measured_by_training_on_the_test_patients():
    for name in ("utility", "reliability"):
        assert Reference.REAL_TEST not in SUITES[name].references
        assert SUITES[name].ceiling is Reference.REAL_TRAIN
    assert SUITES["privacy"].floor is Reference.TRAIN_COPY


def test_what_learns_from_a_cohort_and_is_judged_by_test_patients_never_learns_from_these():
    for metric in METRICS:
        if metric.trained or SUITES[metric.suite].ceiling is Reference.REAL_TRAIN:
            assert ceiling_of(metric) is Reference.REAL_TRAIN
            assert Reference.REAL_TEST not in references_of(metric)
        assert ceiling_of(metric) in references_of(metric)


def test_a_suite_that_needs_a_target_is_not_among_the_plain_ones():
    assert "control" not in PLAIN_SUITES and set(PLAIN_SUITES) < set(SUITES)
