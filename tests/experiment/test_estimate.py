from __future__ import annotations

from adapcla.experiment.estimate import Sizes, clock, evaluation_seconds, sampling_seconds, sizes_of, training_seconds
from adapcla.experiment.spec import EvaluateSpec, spec_from
from adapcla.generators.methods import generator_for

SIZES = Sizes(10_000, 20_000, 1000)


def test_sizes_are_exact_once_the_cohort_is_prepared():
    prepared = {"parts": {"train": [70, 150]}, "description": {"codes": 9}}
    assert sizes_of(spec_from({"name": "a"}), prepared) == Sizes(70, 150, 9)


def test_more_work_takes_longer():
    small, large = (generator_for("adapcla", passes=passes).settings for passes in (1, 10))
    assert training_seconds(small, SIZES) < training_seconds(large, SIZES)
    assert training_seconds(generator_for("marginal").settings, SIZES) <= 1
    assert training_seconds(generator_for("adapcla-release", passes=1).settings, SIZES) > training_seconds(small, SIZES)
    assert sampling_seconds(small, SIZES, 100) < sampling_seconds(small, SIZES)
    quick = evaluation_seconds(EvaluateSpec(quick=True), SIZES)
    assert quick < evaluation_seconds(EvaluateSpec(), SIZES)


def test_times_read_well():
    assert [clock(x) for x in (0.2, 89, 91, 7200)] == ["0 s", "89 s", "2 min", "2.0 h"]
