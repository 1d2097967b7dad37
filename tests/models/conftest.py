"""A small planted world and untrained networks rolled out by one visit, for tests of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.io import simulator as planted
from adapcla.models.batch import Records
from adapcla.models.contract import Shape
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
