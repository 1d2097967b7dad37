"""The table of methods: a method is a row, and a row says what it starts from, so that nothing is hidden."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapcla.errors import UsageError
from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.settings import Settings, settings_from


@dataclass(frozen=True)
class Method:
    """A row: a name, where it comes from and its settings."""

    name: str
    summary: str
    paper: str
    settings: Settings
    starts_from: str = "random weights"
    supports: tuple[str, ...] = ("toward", "continue_", "likelihood")


_PAPER = "AdaPCLA (Cui et al.)"
_ADAPCLA = Settings(method="adapcla")


def _row(name: str, summary: str, paper: str, /, **changes: Any) -> Method:
    return Method(name, summary, paper, settings_from(_ADAPCLA, {"method": name, **changes}))


_ROWS = (
    _row("adapcla", "The paper's method: independent head, annealed scaffold (base), no bias when sampling.", _PAPER),
    _row(
        "adapcla-paper-size",
        "The same at the paper's size: width 768, 12 layers, 12 heads, 48 rows.",
        _PAPER,
        width=768,
        layers=12,
        heads=12,
        context=48,
        learning_rate=1e-4,
        batch_size=48,
    ),
    _row(
        "tailwise",
        "Ours: blockwise head and code families; codes of a visit know each other.",
        "this project",
        head="blockwise",
        hierarchy=True,
        schedule="none",
    ),
)
METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def generator_for(method: str, **changes: Any) -> NeuralGenerator:
    """An unfitted generator of this row, with some settings changed.

    >>> generator_for("adapcla", width=64).settings.architecture.width
    64
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no method is called {method!r}{hint} (see `adapcla methods`)")
    return NeuralGenerator(settings_from(METHODS[method].settings, changes))


def load(folder: str | Path) -> NeuralGenerator:
    """The saved generator in a folder."""
    return NeuralGenerator.load(folder)
