"""The tables of metrics and suites: each key once, each suite known, nothing heavy loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapcla.errors import UsageError
from adapcla.evaluation.metric import SUITES
from adapcla.evaluation.metric import METRICS, METRICS, metrics_of


def test_no_two_metrics_share_a_key_and_every_suite_has_metrics():
    keys = [metric.key for metric in METRICS]
    assert len(set(keys)) == len(keys)
    assert {metric.suite for metric in METRICS} == set(SUITES)


def test_a_metric_is_heldout_by_name_and_by_row_alike():
    """The discriminator knows test patients alone, so that there is nothing for a name to tell it from."""
    others = [metric for metric in METRICS if metric.suite != "discriminator"]
    assert all(metric.heldout == metric.key.endswith("_heldout") for metric in others)


def test_every_heldout_row_differs_from_its_other_row_in_nothing_but_the_cohort():
    for metric in METRICS:
        if metric.heldout:
            other = metric_of(metric.key.removesuffix("_heldout"))
            shape = [(m.suite, m.goal, m.bounds, m.unit, m.cost, m.sized, m.thinned) for m in (metric, other)]
            assert shape[0] == shape[1]
            assert metric.summary == other.summary.replace("training visits", "test visits")


def test_metrics_come_suite_by_suite_in_the_order_asked_for():
    suites = [metric.suite for metric in metrics_of(["control", "tail", "control"])]
    counts = {name: sum(metric.suite == name for metric in METRICS) for name in ("control", "tail")}
    assert suites == ["control"] * counts["control"] + ["tail"] * counts["tail"]


def test_an_unknown_suite_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="'tial': expected one of tail, fidelity"):
        metrics_of(["tial"])


def test_the_table_loads_no_torch():
    script = "import sys, adapcla.evaluation.metric; assert not {'torch', 'sklearn', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
