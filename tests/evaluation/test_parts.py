"""A cohort is scored part by part: the same scores, with memory that does not grow with the patients."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.evaluation import bootstrap, comparison
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import CountMetric, RatioMetric, metrics_of
from adapcla.evaluation.references import some_patients
from adapcla.io.simulator import simulate

SUITES = ["tail", "fidelity", "course", "numbers", "stays"]
IN_PARTS = [
    m for m in metrics_of(SUITES) if isinstance(m, CountMetric) or (isinstance(m, RatioMetric) and not m.of_test)
]
#: Their interval is a jackknife over groups, which parts do not change.
COUNTED = {metric.key for metric in IN_PARTS if isinstance(metric, CountMetric)}
#: It compares a visit with a random one of its part.
DRAWN = "next_visit_gain"


def parts_of(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count so many patients at a time."""
    monkeypatch.setattr(comparison, "PART", n)
    monkeypatch.setattr(bootstrap, "PART", n)


def test_scores_of_parts_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    trio = [whole_world(120, 1), whole_world(80, 2), whole_world(100, 3)]

    def scores() -> dict[str, dict[str, comparison.Score]]:
        one = Comparison.of(*trio)
        return {metric.key: metric.compute(one) for metric in IN_PARTS if metric.key != DRAWN}

    whole = scores()
    parts_of(13, monkeypatch)
    for key, strata in scores().items():
        for stratum, score in strata.items():
            before = whole[key][stratum]
            assert (score.n, score.low is None, score.reason) == (before.n, before.low is None, before.reason), key
            assert near(score.value, before.value), (key, stratum)
            if key in COUNTED:
                assert near(score.low, before.low) and near(score.high, before.high), (key, stratum)


def near(one: float | None, two: float | None) -> bool:
    """Whether two numbers are equal but for rounding, or both missing."""
    return one == two or (one is not None and two is not None and math.isclose(one, two, rel_tol=1e-7, abs_tol=1e-9))


def test_memory_does_not_grow_with_the_patients(monkeypatch: pytest.MonkeyPatch):
    """Eight times as many synthetic patients: the peak stays within one and a half times."""
    parts_of(500, monkeypatch)
    train, few = simulate(patients=500, codes=60, seed=1), simulate(patients=1_000, codes=60, seed=2)
    many = few.subset([*range(1_000)] * 8)
    cheap = [metric for metric in metrics_of(["tail", "fidelity"]) if metric in IN_PARTS]

    def peak(made: Cohort) -> int:
        one = Comparison.of(train, train, made)
        tracemalloc.start()
        for metric in cheap:
            metric.compute(one)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(few)
    assert peak(many) < 1.5 * peak(few)


def test_what_is_learned_from_all_at_once_is_learned_from_a_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparison, "SAMPLE", 60)
    cohort, test = simulate(patients=200, codes=60, seed=1), simulate(patients=50, codes=60, seed=2)
    one = Comparison.of(cohort, test, cohort)
    assert (one.sample.synthetic.n_patients, one.sample.test.n_patients) == (60, 50)
    assert one.sample.synthetic.fingerprint == some_patients(cohort, 60, one.seed).fingerprint
    shares = {metric.key: metric for metric in metrics_of(["tail"])}["tail_information_share"]
    assert shares.compute(one)["all"] == shares.compute(one.sample)["all"]
