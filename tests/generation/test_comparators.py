"""Random and steered patients beside those on demand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.generation.comparators import comparators
from adapcla.generation.model import Model
from adapcla.generation.sampler import sample


def test_steered_patients_fulfil_the_condition_and_random_ones_need_not(small_model: Callable[..., Model]) -> None:
    model, condition = small_model("adapcla"), Criteria.of("C5")
    train = sample(model, 500, seed=9)
    found = comparators(model, condition, train, 40, seed=1)
    assert {name: cohort.n_patients for name, cohort in found.items()} == {"random": 40, "raised": 40, "steered": 40}
    assert condition.matches(found["raised"]).all() and condition.matches(found["steered"]).all()
    assert not condition.matches(found["random"]).all()


def test_only_steered_patients_are_told_what_stands_beside_the_code(small_model: Callable[..., Model]) -> None:
    model, condition = small_model("adapcla"), Criteria.of("C5")
    alone = Cohort.of([[["C5"]]] * 20).on(model.vocabulary)  # training patients who hold nothing else
    found = comparators(model, condition, alone, 40, seed=1)
    assert set(np.unique(found["steered"].codes)) == {model.vocabulary.index["C5"]}
    assert len(np.unique(found["raised"].codes)) > 1


def test_without_training_patients_of_the_condition_nothing_is_steered(small_model: Callable[..., Model]) -> None:
    model, condition = small_model("adapcla"), Criteria.of("C5")
    train = Criteria.of(without="C5").patients(sample(model, 200, seed=9))
    assert list(comparators(model, condition, train, 10, seed=1)) == ["random"]
