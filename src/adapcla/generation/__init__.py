"""Generators, which write patients; every method has the same functions: `fit`, `sample`, `save`, `load`.

Lives here: what methods share when fitting, sampling, steering and saving.
May not: run a second training loop, compute metrics, draw figures.
May import: training, models, scaffold, io, data and the ground floor.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "METHODS": "training.settings",
    "AdaPCLA": "generation.generator",
    "Generator": "generation.generator",
    "generator_for": "generation.generator",
    "load": "generation.generator",
}
__all__ = ["METHODS", "AdaPCLA", "Generator", "generator_for", "load"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"adapcla.{_HOME[name]}"), name)
    raise AttributeError(f"module 'adapcla.generation' has no attribute {name!r}")
