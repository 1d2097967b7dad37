"""A small planted world and untrained networks rolled out by one visit, for tests of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from adapcla.data import Cohort
from adapcla.io import simulator as planted
from adapcla.models.base import Shape
from adapcla.models.batch import Records
from adapcla.models.choice_groups import Groups, Run
from adapcla.models.draws import Noise

CONTEXT = 12


@pytest.fixture(scope="session")
def world() -> Cohort:
    """Patients with days and attributes."""
    return planted.simulate(patients=150, codes=45, seed=3)


@pytest.fixture(scope="session")
def records(world: Cohort) -> Records:
    """The same, ready for batches."""
    return Records(world, CONTEXT)


@pytest.fixture(scope="session")
def shape(world: Cohort) -> Shape:
    """What a network of this world must fit."""
    categories = tuple(len(world.attributes[name].categories) for name in sorted(world.attributes))
    return Shape(world.n_codes, CONTEXT, categories, world.days is not None)


@pytest.fixture(scope="session")
def starts(records: Records) -> Callable[[int], tuple[torch.Tensor, Noise]]:
    """Attributes and noise of the first n patients."""
    return lambda n: (torch.from_numpy(records.attribute_rows(np.arange(n))), Noise(11, np.arange(n), 0))


@pytest.fixture(scope="session")
def after_first_visit(records: Records, starts: Any) -> Callable[[Any, int], Any]:
    """The rolled-out state of the first n patients after their real first visit."""

    def rolled(network: Any, n: int) -> Any:
        batch = Records(records.cohort, 1).batch(np.arange(n))
        drawn = (batch.visit_of_entry.numpy(), batch.codes.numpy())
        return network.absorb(network.begin(*starts(n)), drawn, np.zeros(n, dtype=np.int64))

    return rolled


#: A function of some tensors that gives a loss.
Loss = Callable[..., Tensor]


@pytest.fixture(scope="session")
def agree() -> Callable[[Loss, Loss, list[Tensor]], None]:
    """Whether two losses have the same value and the same gradients, in double and in single precision."""

    def check(by_hand: Loss, plain: Loss, tensors: list[Tensor]) -> None:
        for dtype, close in ((torch.float64, 1e-7), (torch.float32, 1e-4)):
            results = []
            for loss in (by_hand, plain):
                leaves = [tensor.to(dtype).requires_grad_() for tensor in tensors]
                value = loss(*leaves)
                # Twice the loss: what comes from above must be multiplied in.
                results.append([value.detach(), *torch.autograd.grad(2 * value, leaves)])
            for mine, theirs in zip(*results, strict=True):
                assert mine.dtype == dtype
                torch.testing.assert_close(mine, theirs, rtol=close, atol=close)

    return check


@pytest.fixture(scope="session")
def some_groups() -> Callable[[int], Groups | None]:
    """Choice groups before and behind most of the columns, where there are enough; a tile of 64 would cut one."""

    def made(n_columns: int) -> Groups | None:
        if n_columns < 8:
            return None
        behind = (Run(58, 3, 4, 1), Run(n_columns - 6, 2, 3, 4)) if n_columns >= 100 else (Run(n_columns - 4, 2, 2, 1),)
        return Groups((Run(0, 1, 3, 0), *behind), n_columns)

    return made
