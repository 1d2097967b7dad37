"""Distributions of values: copies are near, shifted values are far by what they were shifted, and few say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.conftest import GLUCOSE, World

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.numeric import Scales
from adapcla.evaluation.numeric import NO_VALUES, value_distance, value_in_range, values_left_out
from adapcla.evaluation.references import marginal


@pytest.fixture(scope="module")
def train(world: World) -> Cohort:
    return world(300, 1)


def shifted(cohort: Cohort, by: float) -> Cohort:
    """The cohort with glucose moved."""
    here = np.asarray(cohort.codes) == cohort.vocabulary.index[GLUCOSE.token]
    return replace(cohort, values=np.where(here, cohort.values + np.float32(by), cohort.values).astype(np.float32))


def test_a_copy_is_at_no_distance_and_a_shift_is_told_in_interquartile_ranges(train: Cohort):
    spread = Scales.of(train).spread[train.vocabulary.index[GLUCOSE.token]]
    same, moved = (value_distance(Comparison.of(train, train, one)) for one in (train, shifted(train, 2 * spread)))
    assert same[ALL].value == 0 and same[ALL].n == 3
    assert moved[f"number:{GLUCOSE.token}"].value == pytest.approx(2, rel=1e-3)
    assert moved[ALL].value == pytest.approx(2 / 3, rel=1e-3), "the mean over three numbers"
    assert moved[ALL].low < moved[ALL].value < moved[ALL].high


def test_values_drawn_without_codes_have_the_right_shape(train: Cohort, world: World):
    chance = value_distance(Comparison.of(train, train, marginal(train, 2000, seed=1)))[ALL].value
    other = value_distance(Comparison.of(train, train, shifted(train, 60)))[ALL].value
    assert chance < 0.1 < other


def test_values_far_away_are_outside_the_range(train: Cohort):
    score = value_in_range(Comparison.of(train, train, shifted(train, 10_000)))
    assert score[f"number:{GLUCOSE.token}"].value == 0 and score["number:STAY/days"].value > 0.9
    assert 0.9 < value_in_range(Comparison.of(train, train, train))[ALL].value < 1


def test_a_number_that_was_never_written_is_left_out_and_counted(train: Cohort):
    without = train.keep_codes(np.array([code != GLUCOSE for code in train.vocabulary.codes]))
    comparison = Comparison.of(train, train, without)
    assert values_left_out(comparison)[ALL].value == pytest.approx(1 / 3)
    assert value_distance(comparison)[f"number:{GLUCOSE.token}"].reason == "no such value was generated"
    assert value_distance(comparison)[ALL].value == 0, "the two others are copies"


def test_records_without_values_say_so(train: Cohort):
    plain = train.without_values()
    for made in (Comparison.of(plain, plain, plain), Comparison.of(train, train, plain)):
        for score in (value_distance, values_left_out, value_in_range):
            assert score(made)[ALL].value is None and score(made)[ALL].reason == NO_VALUES
