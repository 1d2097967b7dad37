"""A small fitted generator that several tests look at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapcla.data import Attribute, Cohort
from adapcla.data.split import Split
from adapcla.generation import Generator, generator_for
from adapcla.generation.fitting import initial_model
from adapcla.generation.model import Model
from adapcla.io import simulator as planted

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 64, "validations": 4}


@pytest.fixture(scope="session")
def parts() -> Split:
    """Train, validation and test patients of a small planted world with days and attributes."""
    return planted.simulate(patients=500, codes=80, seed=1).split(seed=4)


@pytest.fixture(scope="session", params=["adapcla", "tailwise"])
def fitted(request: pytest.FixtureRequest, parts: Split) -> Generator:
    """A fitted generator of each kind."""
    rounds = int(request.param == "tailwise")
    return generator_for(request.param, **SMALL, calibration_rounds=rounds).fit(parts.train, parts.valid)


@pytest.fixture(scope="session")
def plain(parts: Split) -> Generator:
    """A fitted generator with the independent head."""
    return generator_for("adapcla", **SMALL).fit(parts.train, parts.valid)


@pytest.fixture
def held_out(parts: Split) -> Cohort:
    """Real patients that nothing was fitted on."""
    return parts.test


#: Codes of the small model.
TOKENS = tuple(f"C{i}" for i in range(8))


@pytest.fixture(scope="session")
def small_model() -> Callable[..., Model]:
    """Makes models of eight codes whose records depend on their history and company, without any training."""
    return _small_model


#: How far weights are moved; a prior over pairs makes much of a small move.
_SPREAD = {"tailwise": 0.1}


def _small_model(method: str, spread: float | None = None, train: Cohort | None = None, **settings: object) -> Model:
    """The untrained network of a method, its weights moved at random so that codes know each other."""
    spread = _SPREAD.get(method, 0.3) if spread is None else spread
    train = _eight_codes() if train is None else train
    size = {} if method == "marginal" else {"width": 16, "layers": 1, "heads": 2}
    changes = {name: value for name, value in {**size, **settings}.items() if value is not None}
    chosen = generator_for(method, **changes).settings
    model = initial_model(chosen, train)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if parameter.dim() > 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * spread)
            if name == "going_on.bias":
                parameter.fill_(0.2)
    model.longest = 3
    model.facts["patients"] = 300
    model.network.eval()
    return model


def _eight_codes() -> Cohort:
    """Patients with up to three visits."""
    draw = np.random.default_rng(0)
    patients = [
        [
            [token for i, token in enumerate(TOKENS) if draw.random() < 0.5 / (i + 1) ** 1.2] or ["C0"]
            for _ in range(draw.integers(1, 4))
        ]
        for _ in range(300)
    ]
    sex = Attribute(draw.integers(0, 2, size=300).astype(np.int16), ("F", "M"))
    return Cohort.of(patients, TOKENS, attributes={"sex": sex})
