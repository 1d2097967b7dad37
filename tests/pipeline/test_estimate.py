from __future__ import annotations

from adapcla.generation.generator import generator_for
from adapcla.pipeline.estimate import (
    Sizes,
    clock,
    evaluation_seconds,
    sampling_seconds,
    sizes_of,
    training_seconds,
)
from adapcla.pipeline.settings import DataSettings, EvaluateSettings

SIZES = Sizes(10_000, 20_000, 1000)


def test_sizes_are_exact_once_the_cohort_is_prepared():
    about = {"codes": 9, "codes_per_visit": {"mean": 2.5}}
    prepared = {"parts": {"train": [70, 150]}, "description": about}
    assert sizes_of(DataSettings(), prepared) == Sizes(70, 150, 9, 2.5)


def test_more_work_takes_longer():
    small, large = (generator_for("adapcla", passes=passes).settings for passes in (1, 10))
    assert training_seconds(small, SIZES) < training_seconds(large, SIZES)
    assert training_seconds(generator_for("marginal").settings, SIZES) <= 1
    assert training_seconds(generator_for("adapcla-release", passes=1).settings, SIZES) > training_seconds(small, SIZES)
    assert sampling_seconds(small, SIZES, 100) < sampling_seconds(small, SIZES)
    quick = evaluation_seconds(EvaluateSettings(quick=True), SIZES)
    assert quick < evaluation_seconds(EvaluateSettings(), SIZES)


def test_a_stream_of_codes_takes_longer_than_a_stream_of_visits():
    visits, codes = (generator_for(method, width=128, layers=2).settings for method in ("adapcla", "gpt"))
    assert training_seconds(codes, SIZES) > 3 * training_seconds(visits, SIZES)


def test_times_read_well():
    assert [clock(x) for x in (0.2, 89, 91, 7200)] == ["0 s", "89 s", "2 min", "2.0 h"]
