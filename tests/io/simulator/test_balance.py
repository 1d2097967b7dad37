"""Rates that bring a structure near its target prevalences."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.io.simulator.balance import MOST_VISITS, balanced
from adapcla.io.simulator.names import layout
from adapcla.io.simulator.structure import structure


@pytest.fixture(scope="module")
def plan():
    return layout(600)


@pytest.fixture(scope="module")
def rates(plan):
    return balanced(structure(plan, 7), plan)


def test_every_disorder_can_come_by_itself_and_no_reason_can(plan, rates):
    assert (rates.hazard[plan.disorders] > 0).all()
    assert (rates.hazard[plan.reasons] == 0).all()


def test_a_code_that_owes_nothing_to_others_has_the_hazard_of_its_target(plan, rates):
    """Neither persistent, nor shown by a syndrome, nor led to: the share is 1 − exp(−hazard), about the hazard."""
    world = structure(plan, 7)
    alone = np.setdiff1d(plan.disorders, world.emissions.target)
    alone = np.setdiff1d(alone, world.progressions.target)
    alone = alone[(world.persistence[alone] == 0) & (plan.target[alone] < 0.01)]
    assert len(alone) > 20
    assert rates.hazard[alone] == pytest.approx(plan.target[alone], rel=0.03)


def test_there_is_a_return_rate_after_every_visit_but_the_last(rates):
    assert rates.return_log_odds.shape == (MOST_VISITS - 1,)
    assert np.isfinite(rates.return_log_odds).all()
