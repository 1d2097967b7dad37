"""Cohorts with their values beside each other: who has them, who lacks them, and in which unit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import World

from adapcla.data import Code, Cohort
from adapcla.errors import InputError
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.comparison import Natural, has_values, units_of


def glucose(unit: str = "mg/dL", value: float = 99) -> Cohort:
    lab = Code.of("glucose", "LAB", domain="lab", unit=unit)
    return Cohort.of([[["A", "LAB/glucose"]]], ["A", lab], values=np.array([np.nan, value], dtype=np.float32))


def test_metrics_of_codes_see_numbers_as_plain_codes_and_the_values_stand_beside_them(world: World):
    train, made = world(30, 1), world(30, 2)
    comparison = Comparison.of(train, train, made)
    assert comparison.train.values is None and not comparison.vocabulary.numbers.any()
    assert comparison.natural is not None and comparison.whole.synthetic.values is not None
    assert comparison.whole.train.vocabulary.tokens == comparison.vocabulary.tokens
    assert np.array_equal(comparison.whole.synthetic.codes, comparison.synthetic.codes)


def test_a_number_only_one_side_has_finds_its_place_on_the_common_vocabulary():
    other = Cohort.of([[["A", "B"]]])
    comparison = Comparison.of(glucose(), glucose(), other)
    assert comparison.natural is not None
    assert comparison.whole.synthetic.values is not None and np.isnan(comparison.whole.synthetic.values).all()


def test_whoever_wrote_a_number_without_its_value_has_none():
    plain = glucose().without_values()
    assert Comparison.of(glucose(), glucose(), plain).natural is None
    assert Natural.of(plain, plain, glucose(), plain.vocabulary) is None
    assert not has_values(plain, units_of(glucose()))


def test_two_units_of_one_number_are_refused_by_name():
    with pytest.raises(InputError, match=r"LAB/glucose: in mg/dL in one cohort and in mmol/L in another"):
        Comparison.of(glucose(), glucose(), glucose("mmol/L"))


def test_another_synthetic_cohort_brings_its_values_or_the_comparison_is_one_of_codes():
    base = Comparison.of(glucose(), glucose(), glucose())
    other = base.with_synthetic(glucose(value=7))
    assert other.natural is not None and other.whole.synthetic.values is not None
    assert other.whole.synthetic.values[1] == 7
    assert base.with_synthetic(glucose().without_values()).natural is None
    assert base.with_synthetic(base.whole.test).synthetic is base.test, "work on the test patients is shared"


def test_values_change_what_a_score_is_kept_under():
    from adapcla.evaluation.runner import content_key

    one, two = (Comparison.of(glucose(value=value), glucose(), glucose()) for value in (1, 2))
    assert content_key(one) != content_key(two)
