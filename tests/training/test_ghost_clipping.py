"""Norms of patients' gradients without the gradients: the same as one patient alone gives, for every parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adapcla.data import Cohort
from adapcla.generation import generator_for
from adapcla.generation.fitting import initial_model, objective_for
from adapcla.generation.model import seen_records
from adapcla.io import simulator as planted
from adapcla.models.base import Moment, ScaffoldedLikelihood
from adapcla.models.batch import Records
from adapcla.training.ghost_clipping import applies, clipped_by_norms, losses_and_norms, own_starts
from adapcla.training.privacy import clipped_one_by_one, one_gradient

_SMALL = {"width": 16, "layers": 2, "heads": 2, "dropout": 0.0}
_MOMENT = Moment(1, 10, 1)


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate(patients=60, codes=80, seed=3)


def prepared(world: Cohort, method: str = "adapcla", **changes: Any) -> tuple[Any, Records, list[nn.Parameter]]:
    """A plan whose weights have left their beginning, where many gradients would be zero."""
    generator = generator_for(method, **{**_SMALL, **changes})
    objective = objective_for(initial_model(generator.settings, world))
    stream = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in objective.modules.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=stream) * 0.1)
    objective.modules.train()
    records = replace(seen_records(generator.settings, world, objective.modules.order), context=7)
    return objective, records, list(objective.modules.parameters())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positive_weight": 1.5, "schedule": "constant"},
        {"use_days": False, "use_attributes": False, "schedule": "none"},
    ],
    ids=["plain", "weighted", "bare"],
)
def test_norms_are_those_of_each_patient_alone(world: Cohort, changes: dict[str, Any]) -> None:
    objective, records, parameters = prepared(world, **changes)
    everyone = np.arange(world.n_patients)
    losses, norms = losses_and_norms(objective, own_starts(records.batch(everyone)), _MOMENT)
    for patient in everyone:
        loss, gradient = one_gradient(objective, records, int(patient), _MOMENT, parameters)
        alone = float(torch.stack([part.double().norm() for part in gradient]).norm())
        assert float(norms[patient]) == pytest.approx(alone, rel=1e-5)
        assert float(losses[patient].detach()) == pytest.approx(loss, rel=1e-5)


def test_every_parameter_counts_towards_the_norm(world: Cohort) -> None:
    """Each parameter alone: the norm with all others frozen out of the sum would hide a forgotten one."""
    objective, records, parameters = prepared(world)
    _, gradient = one_gradient(objective, records, 0, _MOMENT, parameters)
    small = [
        name for (name, _), part in zip(objective.modules.named_parameters(), gradient, strict=True) if not part.any()
    ]
    assert not [name for name in small if not name.startswith("gap_head")], "a gradient that is zero proves nothing"


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_the_sum_of_cut_gradients_is_that_of_one_by_one(world: Cohort, factor: float) -> None:
    objective, records, parameters = prepared(world)
    everyone = np.arange(world.n_patients)
    _, norms = losses_and_norms(objective, own_starts(records.batch(everyone)), _MOMENT)
    clip = factor * float(norms.median())
    total = clipped_by_norms(objective, records, everyone, _MOMENT, parameters, clip)
    at_once = [parameter.grad.clone() for parameter in parameters]  # type: ignore[union-attr]
    assert total == pytest.approx(clipped_one_by_one(objective, records, everyone, _MOMENT, parameters, clip), rel=1e-5)
    for found, parameter in zip(at_once, parameters, strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-4, atol=1e-4 * float(found.abs().max()) + 1e-7)


def test_a_cut_gradient_is_never_longer_than_the_bound(world: Cohort) -> None:
    objective, records, parameters = prepared(world)
    for patient in range(world.n_patients):
        clipped_by_norms(objective, records, np.array([patient]), _MOMENT, parameters, 0.7)
        length = torch.stack([p.grad.double().norm() for p in parameters]).norm()  # type: ignore[union-attr]
        assert 0.699 < float(length) <= 0.7


def test_nobody_drawn_gives_zeros(world: Cohort) -> None:
    objective, records, parameters = prepared(world)
    assert clipped_by_norms(objective, records, np.zeros(0, dtype=np.int64), _MOMENT, parameters, 1.0) == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in parameters)


def test_start_rows_have_one_owner(world: Cohort) -> None:
    batch = Records(world, 7).batch(np.array([4, 4, 9]))
    own = own_starts(batch)
    assert own.n_starts == 3 and own.start_of_patient.tolist() == [0, 1, 2]
    assert own.start_attributes.shape == (3, len(world.attributes))
    assert torch.equal(own.codes, batch.codes) and len(own.row_before.unique()) == own.n_visits


@pytest.mark.parametrize("method", ["tailwise", "lstm", "halo", "gpt"])
def test_other_networks_are_left_to_the_slow_way(world: Cohort, method: str) -> None:
    objective, _, parameters = prepared(world, method)
    assert not applies(objective, parameters)


def test_a_parameter_that_nobody_knows_is_noticed(world: Cohort) -> None:
    objective, _, parameters = prepared(world)
    assert isinstance(objective, ScaffoldedLikelihood) and applies(objective, parameters)
    assert not applies(objective, [*parameters, nn.Parameter(torch.zeros(1))])
