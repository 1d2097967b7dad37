"""The registry of metrics and suites: each key once, each suite known, nothing its own ceiling, nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapcla.errors import UsageError
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.metric import METRICS, PLAIN_SUITES, SUITES, Metric, ceiling_of, metrics_of, references_of
from adapcla.evaluation.references import Reference


def test_a_class_with_a_key_is_a_metric_for_each_cohort_that_it_compares_with(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapcla.evaluation.metric.METRICS", {})
    from adapcla.evaluation import metric

    class Patients(Metric):
        """Patients that stand beside those of training visits.

        More is no better.
        """

        key, suite, goal, against = "patients", "tail", "none", ("train", "test")

        def compute(self, comparison: Comparison) -> dict[str, Score]:
            return {ALL: Score(float(comparison.real(self.real).n_patients), 1)}

    assert list(metric.METRICS) == ["patients", "patients_heldout"]
    here, heldout = metric.METRICS.values()
    assert (here.summary, heldout.summary) == (
        "Patients that stand beside those of training visits.",
        "Patients that stand beside those of test visits.",
    )
    assert (here.heldout, heldout.heldout) == (False, True)
    assert heldout.name == "patients_heldout@1"


def test_every_suite_has_metrics_and_every_metric_a_sentence():
    assert {metric.suite for metric in METRICS.values()} == set(SUITES)
    assert all(key == metric.key and metric.summary.endswith(".") for key, metric in METRICS.items())


def test_a_metric_is_heldout_by_name_and_by_what_it_compares_with_alike():
    """The discriminator knows test patients alone, so that there is nothing for a name to tell it from."""
    others = [metric for metric in METRICS.values() if metric.suite != "discriminator"]
    assert all(metric.heldout == metric.key.endswith("_heldout") for metric in others)


def test_metrics_come_suite_by_suite_in_the_order_asked_for():
    suites = [metric.suite for metric in metrics_of(["control", "tail", "control"])]
    counts = {name: sum(metric.suite == name for metric in METRICS.values()) for name in ("control", "tail")}
    assert suites == ["control"] * counts["control"] + ["tail"] * counts["tail"]


def test_an_unknown_suite_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="'tial': expected one of tail, fidelity"):
        metrics_of(["tial"])


def test_the_table_loads_no_torch():
    script = "import sys, adapcla.evaluation.metric; assert not {'torch', 'sklearn', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_utility_is_never_measured_by_training_on_the_test_patients():
    for name in ("utility", "reliability"):
        assert Reference.REAL_TEST not in SUITES[name].references
        assert SUITES[name].ceiling is Reference.REAL_TRAIN
    assert SUITES["privacy"].floor is Reference.TRAIN_COPY


def test_what_learns_from_a_cohort_and_is_evaluated_on_test_patients_never_learns_from_these():
    for metric in METRICS.values():
        if metric.trained or SUITES[metric.suite].ceiling is Reference.REAL_TRAIN:
            assert ceiling_of(metric) is Reference.REAL_TRAIN
            assert Reference.REAL_TEST not in references_of(metric)
        assert ceiling_of(metric) in references_of(metric)


def test_a_suite_that_needs_a_target_is_not_among_the_plain_ones():
    assert "control" not in PLAIN_SUITES and set(PLAIN_SUITES) < set(SUITES)
