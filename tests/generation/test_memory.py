"""A network that does not fit is refused before it is made."""

from __future__ import annotations

import pytest

from adapcla.data import Prevalence
from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.generation import fitting as memory
from adapcla.generation import generator_for
from adapcla.models.base import Shape
from adapcla.training.settings import METHODS


def test_a_head_of_codes_times_codes_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A within-visit matrix over 50,000 codes has more than 50,000² = 2.5 · 10⁹ weights: 90 GB at 36 bytes each."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 * 10**9)
    codes = Prevalence.of({f"C{number:05d}": 0.001 for number in range(50_000)}, n_visits=1000)
    settings = generator_for("halo").settings
    with pytest.raises(UsageError, match=r"GB are free\nto do"):
        memory.demand_memory(settings, Shape(50_000, 48), codes)


def test_every_method_is_measured_by_its_parameters(parts: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    prevalence = parts.train.prevalence()
    for name in METHODS:
        settings = generator_for(name).settings
        assert (
            memory.demand_memory(settings, Shape(parts.train.n_codes, settings.architecture.context), prevalence) >= 0
        )


def test_training_is_refused_before_the_first_step(parts: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(UsageError, match="parameters"):
        generator_for("adapcla", width=16, layers=1, heads=2).fit(parts.train, parts.valid)
