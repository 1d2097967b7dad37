"""A small fitted generator that several tests look at."""

from __future__ import annotations

import pytest

from adapcla.generators import Generator, generator_for
from adapcla.records import Cohort
from adapcla.records.split import Split
from adapcla.sources import planted

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 64, "validations": 4}


@pytest.fixture(scope="session")
def parts() -> Split:
    """Train, validation and test patients of a small planted world with days and attributes."""
    return planted.simulate(patients=500, codes=80, seed=1).split(seed=4)


@pytest.fixture(scope="session", params=["adapcla", "tailwise"])
def fitted(request: pytest.FixtureRequest, parts: Split) -> Generator:
    """A fitted generator of each head."""
    return generator_for(request.param, **SMALL).fit(parts.train, parts.valid)


@pytest.fixture(scope="session")
def plain(parts: Split) -> Generator:
    """A fitted generator with the independent head."""
    return generator_for("adapcla", **SMALL).fit(parts.train, parts.valid)


@pytest.fixture
def held_out(parts: Split) -> Cohort:
    """Real patients that nothing was fitted on."""
    return parts.test
