"""Whose values: effects that can be counted on paper, a law that is found, and a wrong world that is caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.conftest import GLUCOSE, World

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.numeric import Scales
from adapcla.evaluation.references import marginal, train_copy
from adapcla.evaluation.numeric import (
    Sums,
    correlations,
    value_autocorr,
    value_autocorr_error,
    value_effect_corr,
    value_effect_error,
    value_steps,
)


@pytest.fixture(scope="module")
def train(world: World) -> Cohort:
    return world(600, 1)


def shuffled(cohort: Cohort, seed: int = 1) -> Cohort:
    """The cohort with the values of each number dealt out anew: the right shape, for the wrong patients."""
    draw, values = np.random.default_rng(seed), np.array(cohort.values)
    for number in np.flatnonzero(cohort.vocabulary.numbers):
        here = np.flatnonzero(np.asarray(cohort.codes) == number)
        values[here] = values[draw.permutation(here)]
    return replace(cohort, values=values)


def test_the_effect_of_a_code_is_the_difference_of_means_in_deviations(train: Cohort):
    scales, index = Scales.of(train), train.vocabulary.index
    diabetes, glucose = index["diabetes"], index[GLUCOSE.token]
    effect = Sums.of(train, scales, np.array([diabetes]), np.array([glucose])).effects[0, 0]
    entry = np.asarray(train.codes) == glucose
    ill = np.asarray(train.matrix()[:, diabetes].todense()).ravel()[train.visit_of_entry[entry]] > 0
    value = np.clip(np.asarray(train.values)[entry], scales.low[glucose], scales.high[glucose]).astype(float)
    assert effect == pytest.approx((value[ill].mean() - value[~ill].mean()) / value.std(), rel=1e-4)
    assert effect > 1.5, "the world's law: 60 mg/dL"


def test_other_patients_of_the_law_have_its_effects_and_shuffled_values_have_none(train: Cohort, world: World):
    other, wrong = (Comparison.of(train, train, one) for one in (world(600, 2), shuffled(train)))
    assert value_effect_corr(other)[ALL].value > 0.95 and value_effect_error(other)[ALL].value < 0.1
    assert abs(value_effect_corr(wrong)[ALL].value) < 0.4 and value_effect_error(wrong)[ALL].value > 0.25
    told = value_effect_corr(wrong)[ALL]
    assert told.high < value_effect_corr(other)[ALL].low, "beyond what chance explains"


def test_a_copy_is_best_and_chance_has_no_correlation(train: Cohort):
    copy, chance = (Comparison.of(train, train, make(train, 2000, 1)) for make in (train_copy, marginal))
    assert value_effect_corr(copy)[ALL].value > 0.99 and value_effect_error(copy)[ALL].value < 0.05
    assert abs(value_effect_corr(chance)[ALL].value) < 0.4
    assert abs(value_autocorr(chance)[f"number:{GLUCOSE.token}"].value) < 0.1


def test_a_pair_that_was_never_written_counts_as_without_effect(train: Cohort):
    without = train.keep_codes(np.array([code.token != "diabetes" for code in train.vocabulary.codes]))
    all_there, gone = (value_effect_error(Comparison.of(train, train, one))[ALL] for one in (train, without))
    assert all_there.value == pytest.approx(0, abs=1e-9) and gone.value > 0.05 and gone.n == all_there.n


def test_few_effects_say_so(train: Cohort):
    few = train.subset(np.arange(20))
    assert value_effect_corr(Comparison.of(few, few, few))[ALL].reason.startswith("insufficient data: 0 pairs")


def test_a_value_and_the_next_one_of_the_same_patient_are_a_step_whatever_lies_between(train: Cohort, world: World):
    cohort = world(50)
    number, steps = cohort.vocabulary.index[GLUCOSE.token], value_steps(cohort, Scales.of(cohort))
    assert steps[number, 0] == cohort.n_visits - cohort.n_patients, "every visit of the world has a glucose"
    assert correlations(np.zeros((1, 6))).tolist() == [0.0]


def test_values_that_last_are_told_from_values_that_do_not(train: Cohort, world: World):
    other, wrong = (Comparison.of(train, train, one) for one in (world(600, 2), shuffled(train)))
    stratum = f"number:{GLUCOSE.token}"
    assert value_autocorr(other)[stratum].value > 0.9 > 0.2 > value_autocorr(wrong)[stratum].value
    assert value_autocorr_error(other)[ALL].value < 0.1 < 0.25 < value_autocorr_error(wrong)[ALL].value


def test_few_steps_say_so(train: Cohort):
    alone = train.with_visits(train.first_visits, train.first_visits + 1)
    assert value_autocorr(Comparison.of(alone, alone, alone))[ALL].reason.startswith("insufficient data: 0 pairs")
