"""Methods and training for Python users, in one call each."""

from __future__ import annotations

from typing import Any

from adapcla.data import Cohort
from adapcla.data.split import ControlledSplit, Split
from adapcla.generation.generator import Generator
from adapcla.generation.methods import METHODS, generator_for


def methods() -> dict[str, str]:
    """The name of every method → what it is.

    >>> methods()["marginal"][:17]
    'Independent draws'
    """
    return {name: method.row.summary for name, method in METHODS.items()}


def train(
    patients: Cohort | Split[Cohort] | ControlledSplit[Cohort], method: str = "adapcla", **settings: Any
) -> Generator:
    """A fitted generator of this method, with some settings changed.

    A whole cohort is split as `Cohort.split()` splits it; test and control patients take no part.
    """
    parts = patients.split() if isinstance(patients, Cohort) else patients
    return generator_for(method, **settings).fit(parts.train, parts.valid)
