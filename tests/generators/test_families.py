"""Settings decide the network and the plan."""

from __future__ import annotations

import torch

from adapcla.generators.families import network_for, plan_for
from adapcla.generators.settings import Settings, settings_from
from adapcla.networks.contract import Shape
from adapcla.records import Cohort
from adapcla.training.plan import Moment, ScaffoldPlan


def test_the_plan_follows_the_schedule(tiny: Cohort) -> None:
    settings = settings_from(Settings(), {"width": 16, "heads": 2, "layers": 1, "schedule": "fast"})
    network = network_for(settings, Shape(4, 48), tiny.prevalence())
    plan = plan_for(settings, network, torch.ones(4))
    assert isinstance(plan, ScaffoldPlan)
    assert [plan.weight(Moment(step, 101, 1)) for step in (10, 30, 50)] == [1.0, 0.5, 0.0]
