"""The table of methods: a method is a row, and a row says what it starts from, so that nothing is hidden.

Rows stand in the files of their families, `models/families/`; here they become settings.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapcla.data import Prevalence, Vocabulary
from adapcla.errors import UsageError
from adapcla.generation.generator import Generator
from adapcla.generation.settings import Settings, settings_from
from adapcla.models.base import Family, Row, Shape
from adapcla.models.registry import FAMILIES


@dataclass(frozen=True)
class Method:
    """A row of the table with its settings and what its family can do."""

    row: Row
    settings: Settings

    @property
    def supports(self) -> tuple[str, ...]:
        """What a fitted generator of this row can do beside sampling.

        >>> METHODS["synteg"].supports
        ('continue_',)
        """
        traits = self.settings.family.traits
        abilities = {"toward": traits.steerable, "continue_": traits.continues, "likelihood": traits.likelihood}
        return tuple(name for name, able in abilities.items() if able)


def _methods() -> dict[str, Method]:
    """Every row by name: the visit networks first, then the other families that are trained, then those that count."""

    def position(family: Family) -> tuple[bool, bool, str]:
        return family.name != "visits", family.objective is None, family.name

    return {
        row.name: Method(row, settings_from(Settings(), {"method": row.name, "family": family.name, **row.settings}))
        for family in sorted(FAMILIES.values(), key=position)
        for row in family.rows
    }


METHODS: dict[str, Method] = _methods()


def generator_for(method: str, **changes: Any) -> Generator:
    """An unfitted generator of this row, with some settings changed.

    >>> generator_for("adapcla", width=64).settings.architecture.width
    64
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no method is called {method!r}{hint} (see `adapcla methods`)")
    return Generator(settings_from(METHODS[method].settings, changes))


def AdaPCLA(**changes: Any) -> Generator:
    """The paper's method: a scaffold that training anneals away, so that sampling needs no bias.

    >>> AdaPCLA(schedule="fast").settings.schedule
    'fast'
    """
    return generator_for("adapcla", **changes)


#: The vocabulary that the sizes in the list of methods are for.
_LISTED_CODES = 1000


def described(method: str, n_codes: int = _LISTED_CODES) -> dict[str, Any]:
    """What `adapcla methods` says of a row; parameters are those of a vocabulary of `n_codes` codes.

    >>> described("marginal")["parameters"]
    0
    """
    row, settings = METHODS[method].row, METHODS[method].settings
    return {
        "name": method,
        "summary": row.summary,
        "paper": row.paper,
        "starts_from": row.starts_from,
        "supports": list(METHODS[method].supports),
        "note": row.note,
        "codes": n_codes,
        "parameters": _parameters(settings, n_codes),
        "passes": settings.budget.passes,
        "in all": row.usual,
        "settings": settings.model_dump(mode="json"),
    }


def _parameters(settings: Settings, n_codes: int) -> int:
    """How many numbers are learned; layers are alike, so that a deep network need not be made to be counted."""
    layers = settings.architecture.depth
    if layers > 2:
        one, two = (_parameters(settings_from(settings, {"layers": n}), n_codes) for n in (1, 2))
        return one + (layers - 1) * (two - one)
    prevalence = Prevalence(Vocabulary.of(f"{i:06d}" for i in range(n_codes)), np.full(n_codes, 1 / n_codes), n_codes)
    network = settings.network(Shape(n_codes, settings.architecture.context), prevalence)
    return sum(parameter.numel() for parameter in network.parameters())
