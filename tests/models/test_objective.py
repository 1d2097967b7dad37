"""The scaffold enters the training loss, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.models.base import Moment, ScaffoldedLikelihood, ScaffoldRule, Shape
from adapcla.models.batch import Records
from adapcla.models.visit_transformer import VisitArchitecture, visit_network
from adapcla.scaffold import Scaffold, schedule


@pytest.fixture
def parts(tiny: Cohort):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    network = visit_network(VisitArchitecture(width=16, layers=1, heads=2), Shape(4, 48), tiny.prevalence()).eval()
    bias = torch.from_numpy(Scaffold(tiny.prevalence()).bias).float()
    return network, bias, Records(tiny, 48).batch(np.arange(3))


def test_the_loss_uses_the_weight_of_its_moment(parts) -> None:  # type: ignore[no-untyped-def]
    network, bias, batch = parts
    objective = ScaffoldedLikelihood(network, ScaffoldRule(bias, schedule("base")))
    start, middle, end = (Moment(step, 101, 1) for step in (0, 50, 100))
    assert [objective.weight(m) for m in (start, middle, end)] == [1.0, 0.5, 0.0]
    assert float(objective.loss(batch, start)) == pytest.approx(float(network.loss(batch, bias)), rel=1e-6)
    assert float(objective.loss(batch, middle)) == pytest.approx(float(network.loss(batch, 0.5 * bias)), rel=1e-6)
    assert float(objective.loss(batch, end)) == pytest.approx(float(network.loss(batch, None)), rel=1e-6)


def test_validation_is_free_of_the_scaffold_unless_inference_keeps_it(parts) -> None:  # type: ignore[no-untyped-def]
    network, bias, batch = parts
    free = ScaffoldedLikelihood(network, ScaffoldRule(bias, schedule("constant"))).validation(batch)
    kept = ScaffoldedLikelihood(network, ScaffoldRule(bias, schedule("constant"), at_validation=True)).validation(batch)
    assert free[0] == pytest.approx(float(network.likelihood(batch, None).record.sum()), rel=1e-6)
    assert kept[0] == pytest.approx(float(network.likelihood(batch, bias).record.sum()), rel=1e-6)
    assert free[1] == kept[1] == 5


def test_a_ramp_settles_when_it_is_released(parts) -> None:  # type: ignore[no-untyped-def]
    network, bias, _ = parts
    objective = ScaffoldedLikelihood(network, ScaffoldRule(bias, schedule("base")))
    assert [objective.is_final(Moment(step, 101, 1)) for step in (0, 69, 70, 100)] == [False, False, True, True]
    assert ScaffoldedLikelihood(network, ScaffoldRule(bias, schedule("constant"))).is_final(Moment(0, 101, 1))
