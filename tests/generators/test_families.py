"""Settings decide the network and the plan."""

from __future__ import annotations

import pytest
import torch

from adapcla.errors import UsageError
from adapcla.generators.families import network_for, plan_for
from adapcla.generators.settings import Settings, settings_from
from adapcla.networks.contract import Shape
from adapcla.records import Cohort
from adapcla.training.adversarial import AdversarialPlan
from adapcla.training.elbo import ElboPlan
from adapcla.training.plan import Moment, ScaffoldPlan


def test_the_plan_follows_the_schedule(tiny: Cohort) -> None:
    settings = settings_from(Settings(), {"width": 16, "heads": 2, "layers": 1, "schedule": "fast"})
    network = network_for(settings, Shape(4, 48), tiny.prevalence())
    plan = plan_for(settings, network, torch.ones(4))
    assert isinstance(plan, ScaffoldPlan)
    assert [plan.weight(Moment(step, 101, 1)) for step in (10, 30, 50)] == [1.0, 0.5, 0.0]


def test_every_family_gets_its_network_and_plan(tiny: Cohort) -> None:
    plans = {"visits": ScaffoldPlan, "gpt": ScaffoldPlan, "eva": ElboPlan, "synteg": AdversarialPlan}
    for family, plan in plans.items():
        settings = settings_from(Settings(), {"family": family, "width": 16, "schedule": "none"})
        network = network_for(settings, Shape(4, 48), tiny.prevalence())
        assert isinstance(plan_for(settings, network, torch.ones(4)), plan)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "eva", "schedule": "base"}, "without a scaffold"),
        ({"family": "gpt", "schedule": "none", "positive_weight": 1.5}, "positive_weight"),
        ({"family": "eva", "schedule": "none", "calibration_rounds": 2}, "calibration_rounds"),
    ],
)
def test_settings_without_a_meaning_are_refused(changes: dict, message: str, tiny: Cohort) -> None:
    settings = settings_from(Settings(), {"width": 16, **changes})
    network = network_for(settings, Shape(4, 48), tiny.prevalence())
    with pytest.raises(UsageError, match=message):
        plan_for(settings, network, torch.ones(4))
