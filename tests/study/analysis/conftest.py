"""Simulated patients, probes at them and one observed fit, shared by the tests of analyses."""

from __future__ import annotations

import pytest

from adapcla.data.split import Split
from adapcla.io import simulator
from adapcla.study.analysis.probes import ProbeSet, probe_set
from adapcla.study.analysis.run import ObservedFit, observed_fit

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 64, "validations": 2}


@pytest.fixture(scope="session")
def world() -> Split:
    """Train, validation and test patients of a small simulation."""
    return simulator.simulate(patients=1200, codes=200, seed=1).split(seed=4)


@pytest.fixture(scope="session")
def probes(world: Split) -> ProbeSet:
    return probe_set(world.train, world.test, 12)


@pytest.fixture(scope="session")
def probed(world: Split, probes: ProbeSet) -> ObservedFit:
    return observed_fit(world.train, world.valid, probes, changes=SMALL, kernels=True, looks=11)
