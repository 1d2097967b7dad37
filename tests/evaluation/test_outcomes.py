"""Classifiers of death and return: nothing in the input tells the answer, and what was learned is told from chance."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import GLUCOSE, World

from adapcla.data import Cohort
from adapcla.data.vocabulary import READMITTED, discharge_code
from adapcla.evaluation.contract import ALL, Comparison
from adapcla.evaluation.curves import roc_area
from adapcla.evaluation.outcomes import (
    MORTALITY,
    READMISSION,
    bands_of,
    came_back,
    died_at_last,
    examples_of,
    outcome_scores,
    readable,
)
from adapcla.evaluation.references import marginal
from adapcla.evaluation.stays import Stays


def test_death_is_asked_of_last_visits_and_its_codes_are_taken_out_there_alone():
    cohort = Cohort.of(
        [[["A", "END/home"], ["B", "END/died"]], [["A", "END/home"]]],
        ["A", "B", *map(discharge_code, ("died", "home"))],
    )
    asked = examples_of(cohort, died_at_last(Stays.of(cohort)), MORTALITY, most=9, seed=1)
    assert list(asked.inputs.patients()) == [[["A", "END/home"], ["B", "zz-asked/00"]], [["A", "zz-asked/00"]]]
    assert asked.truth.tolist() == [1, 0] and asked.patient.tolist() == [0, 1]


def test_return_is_asked_of_every_stay_of_which_it_is_known():
    cohort = Cohort.of([[["A", READMITTED.token], ["B"]]], ["A", "B", READMITTED])
    asked = examples_of(cohort, came_back(Stays.of(cohort)), READMISSION, most=9, seed=1)
    with_history = [["A", READMITTED.token], ["B", "zz-asked/00"]]
    assert list(asked.inputs.patients()) == [[["A", "zz-asked/00"]], with_history]
    assert asked.truth.tolist() == [1, 0]
    assert len(examples_of(cohort, came_back(Stays.of(cohort)), READMISSION, most=1, seed=1).truth) == 1


def test_numbers_are_read_as_bands_and_no_visit_is_lost(world: World):
    cohort = world(100)
    read = readable(cohort, bands_of(cohort))
    assert read.n_visits == cohort.n_visits and read.n_entries == cohort.n_entries and read.values is None
    tokens = {token for patient in read.patients() for visit in patient for token in visit}
    assert f"{GLUCOSE.token}/b00" in tokens and GLUCOSE.token not in tokens
    few = readable(cohort, bands_of(cohort.subset(np.arange(3))))
    assert GLUCOSE.token in {token for patient in few.patients() for visit in patient for token in visit}


def test_few_deaths_say_so(world: World):
    train = world(300, 1)
    few = train.subset(np.arange(12))
    reason = outcome_scores(MORTALITY, roc_area, Comparison.of(train, few, train, quick=True))[ALL].reason
    assert reason.startswith("insufficient data")


def test_a_cohort_in_which_nobody_dies_is_answered_no_for_everybody(world: World):
    train = world(300, 1)
    alive = train.keep_entries(np.asarray(train.codes) != train.vocabulary.index["END/died"])
    score = outcome_scores(MORTALITY, roc_area, Comparison.of(train, train, alive, quick=True))[ALL]
    assert score.value == 0.5


@pytest.mark.behaviour
def test_other_patients_of_the_law_teach_who_dies_and_chance_does_not(world: World):
    train, test = world(600, 1), world(800, 3)
    taught, chance = (
        outcome_scores(MORTALITY, roc_area, Comparison.of(train, test, one, quick=True))[ALL].value
        for one in (world(1500, 2), marginal(train, 1500, 1))
    )
    assert taught > 0.75 > 0.65 > chance
