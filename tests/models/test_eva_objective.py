"""The divergence's weight over training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.models.base import Moment, Shape
from adapcla.models.batch import Records
from adapcla.models.eva import EvaArchitecture, EvaNetwork, EvidenceBound


@pytest.fixture
def objective(tiny) -> EvidenceBound:
    torch.manual_seed(1)
    settings = EvaArchitecture(width=16, latent=4, layers=1, context=4)
    return EvidenceBound(EvaNetwork(settings, Shape(4, 4), tiny.prevalence()))


def test_the_divergence_counts_a_tenth_at_first_and_fully_from_the_middle_on(objective):
    """101 steps, annealed over the first half: .1, .55 at a quarter, 1 at a half."""
    moments = [Moment(step, 101, 1) for step in (0, 25, 50, 100)]
    assert [objective.weight(moment) for moment in moments] == pytest.approx([0.1, 0.55, 1.0, 1.0])
    assert [objective.is_final(moment) for moment in moments] == [False, False, True, True]
    assert list(objective.turns()) == [objective.turn(moments[0])] == ["main"]


def test_the_loss_uses_the_weight_and_validation_does_not(objective, tiny):
    batch = Records(tiny, 4).batch(np.arange(3))
    objective.modules.eval()
    with torch.no_grad():
        objective.network.to_latent.bias[:4] = 3.0
        early, late = (float(objective.loss(batch, Moment(step, 101, 1))) for step in (0, 100))
    assert late > early + 10
    total, n_visits = objective.validation(batch)
    assert total == pytest.approx(late, rel=1e-5)
    assert n_visits == 5
