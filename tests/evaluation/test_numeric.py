"""Values of numbers: scales that can be checked on paper, distributions, effects of codes, and lasting values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from tests.evaluation.conftest import GLUCOSE, World, score_of, scores_of, value_of

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, TrainingSummary
from adapcla.evaluation.numeric import (
    EffectSums,
    ValueScales,
    by_number,
    correlations,
    quantile_distance,
    usual_range,
    value_steps,
    values_of,
)
from adapcla.evaluation.references import marginal, train_copy

floats = st.lists(st.integers(-50, 50), min_size=1, max_size=8).map(lambda x: np.sort(np.array(x * 125, dtype=float)))


def test_every_value_knows_its_number_visit_and_patient(world: World):
    cohort = world(20)
    values = values_of(cohort)
    assert len(values.value) == int(np.isfinite(cohort.values).sum())
    for number, visit, patient, value in list(zip(*values, strict=True))[:50]:
        where = np.flatnonzero(cohort.codes_of(visit) == number)[0] + cohort.visit_starts[visit]
        assert cohort.values[where] == value and cohort.patient_of_visit[visit] == patient


def test_plain_records_have_no_values(world: World):
    assert not len(values_of(world(5).without_values()).value)


def test_the_range_ends_where_eleven_patients_lie_beyond_however_many_values_one_of_them_has():
    value = np.concatenate([np.full(500, -9.0), np.arange(100.0)])
    patient = np.concatenate([np.zeros(500, dtype=np.int64), np.arange(100)])
    # The least values of patients are −9, 1, 2 … : the eleventh of them is 10.
    assert usual_range(value, patient)[0] == 10.0


def test_a_number_of_ten_patients_is_not_evaluated(world: World):
    assert not ValueScales.of(world(10)).evaluated.any()
    assert ValueScales.of(world(11)).evaluated[world(11).vocabulary.index[GLUCOSE.token]]


def test_a_number_that_never_varies_has_a_scale_of_one(world: World):
    cohort = world(40)
    same = replace(cohort, values=np.where(np.isnan(cohort.values), np.nan, 5).astype(np.float32))
    scales = ValueScales.of(same)
    assert (scales.spread[scales.evaluated] == 1).all() and (scales.deviation[scales.evaluated] == 1).all()


def test_values_are_told_apart_by_number(world: World):
    values = values_of(world(20))
    assert sum(len(own.value) for _, own in by_number(values)) == len(values.value)
    assert all((own.number == number).all() for number, own in by_number(values))


@given(floats, floats)
def test_the_distance_of_quantiles_is_that_of_wasserstein_where_the_grid_divides_the_values(one, two):
    assert abs(quantile_distance(one, two) - wasserstein_distance(one, two)) < 0.11


def test_nothing_has_no_distance():
    assert np.isnan(quantile_distance(np.zeros(0), np.ones(3)))


# ---- distributions ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def train(world: World) -> Cohort:
    return world(600, 1)


def shifted(cohort: Cohort, by: float) -> Cohort:
    """The cohort with glucose moved."""
    here = np.asarray(cohort.codes) == cohort.vocabulary.index[GLUCOSE.token]
    return replace(cohort, values=np.where(here, cohort.values + np.float32(by), cohort.values).astype(np.float32))


def test_a_copy_is_at_no_distance_and_a_shift_is_told_in_interquartile_ranges(train: Cohort):
    spread = ValueScales.of(train).spread[train.vocabulary.index[GLUCOSE.token]]
    same, moved = (scores_of("value_w1", train, one) for one in (train, shifted(train, 2 * spread)))
    assert same[ALL].value == 0 and same[ALL].n == 3
    assert moved[f"number:{GLUCOSE.token}"].value == pytest.approx(2, rel=1e-3)
    assert moved[ALL].value == pytest.approx(2 / 3, rel=1e-3), "the mean over three numbers"
    assert moved[ALL].low < moved[ALL].value < moved[ALL].high


def test_values_drawn_without_codes_have_the_right_shape(train: Cohort, world: World):
    chance = value_of("value_w1", train, marginal(train, 2000, seed=1))
    other = value_of("value_w1", train, shifted(train, 60))
    assert chance < 0.1 < other


def test_values_far_away_are_outside_the_range(train: Cohort):
    score = scores_of("value_in_range", train, shifted(train, 10_000))
    assert score[f"number:{GLUCOSE.token}"].value == 0 and score["number:STAY/days"].value > 0.9
    assert 0.9 < value_of("value_in_range", train, train) < 1


def test_a_number_that_was_never_generated_is_left_out(train: Cohort):
    without = train.keep_codes(np.array([code != GLUCOSE for code in train.vocabulary.codes]))
    scores = scores_of("value_w1", train, without)
    assert scores[f"number:{GLUCOSE.token}"].reason == "no such value was generated"
    assert scores[ALL].value == 0 and scores[ALL].n == 2, "the two others are copies"


def test_records_without_values_say_so(train: Cohort):
    plain = train.without_values()
    for learned, made in ((plain, plain), (train, plain)):
        for key in ("value_w1", "value_in_range", "value_effect_corr", "value_autocorr_error"):
            assert score_of(key, learned, made).reason.startswith("no values:")


# ---- effects of codes and lasting values --------------------------------------------------------------------
def shuffled(cohort: Cohort, seed: int = 1) -> Cohort:
    """The cohort with the values of each number dealt out anew: the right shape, for the wrong patients."""
    draw, values = np.random.default_rng(seed), np.array(cohort.values)
    for number in np.flatnonzero(cohort.vocabulary.numbers):
        here = np.flatnonzero(np.asarray(cohort.codes) == number)
        values[here] = values[draw.permutation(here)]
    return replace(cohort, values=values)


def test_the_effect_of_a_code_is_the_difference_of_means_in_deviations(train: Cohort):
    scales, index = ValueScales.of(train), train.vocabulary.index
    diabetes, glucose = index["diabetes"], index[GLUCOSE.token]
    codes = np.flatnonzero(~train.vocabulary.numbers & (train.visit_counts >= 30)).tolist()
    effects = EffectSums.count(train, TrainingSummary(train)).effects
    effect = effects[codes.index(diabetes), np.flatnonzero(scales.evaluated).tolist().index(glucose)]
    entry = np.asarray(train.codes) == glucose
    ill = np.asarray(train.matrix()[:, diabetes].todense()).ravel()[train.visit_of_entry[entry]] > 0
    value = np.clip(np.asarray(train.values)[entry], scales.low[glucose], scales.high[glucose]).astype(float)
    assert effect == pytest.approx((value[ill].mean() - value[~ill].mean()) / value.std(), rel=1e-4)
    assert effect > 1.5, "the world has 60 mg/dL"


def test_other_patients_of_the_world_have_its_effects_and_shuffled_values_have_none(train: Cohort, world: World):
    other, wrong = (score_of("value_effect_corr", train, one) for one in (world(600, 2), shuffled(train)))
    assert other.value > 0.95 and abs(wrong.value) < 0.4
    assert wrong.high < other.low, "beyond what chance explains"


def test_a_copy_is_best_and_chance_has_no_correlation(train: Cohort):
    copy, chance = (value_of("value_effect_corr", train, make(train, 2000, 1)) for make in (train_copy, marginal))
    assert copy > 0.99 and abs(chance) < 0.4


def test_few_effects_say_so(train: Cohort):
    few = train.subset(np.arange(20))
    assert score_of("value_effect_corr", few, few).reason.startswith("insufficient data: 0 pairs")


def test_a_value_and_the_next_one_of_the_same_patient_are_a_step_whatever_lies_between(train: Cohort, world: World):
    cohort = world(50)
    number, steps = cohort.vocabulary.index[GLUCOSE.token], value_steps(cohort, ValueScales.of(cohort))
    assert steps[number, 0] == cohort.n_visits - cohort.n_patients, "every visit of the world has a glucose"
    assert correlations(np.zeros((1, 6))).tolist() == [0.0]


def test_values_that_last_are_told_from_values_that_do_not(train: Cohort, world: World):
    other, wrong = (value_of("value_autocorr_error", train, one) for one in (world(600, 2), shuffled(train)))
    assert other < 0.1 < 0.25 < wrong


def test_few_steps_say_so(train: Cohort):
    alone = train.with_visits(train.first_visits, train.first_visits + 1)
    assert score_of("value_autocorr_error", alone, alone).reason.startswith("insufficient data: 0 pairs")
