"""The table of methods."""

from __future__ import annotations

import pytest

from adapcla.errors import UsageError
from adapcla.generation.generator import generator_for
from adapcla.training.settings import METHODS


def test_the_pinned_rows_are_what_they_are_called() -> None:
    ours = METHODS["adapcla"].settings
    assert (ours.architecture.head, ours.schedule, ours.tempering, ours.bias_at_inference) == (
        "independent",
        "base",
        1.0,
        False,
    )
    large = METHODS["adapcla-paper-size"].settings.architecture
    assert (large.width, large.layers, large.heads, large.context) == (768, 12, 12, 48)
    tail = METHODS["tailwise"].settings.architecture
    assert (tail.family, tail.prior, tail.shrinkage, tail.copy_head) == ("gpt", True, 50.0, True)  # type: ignore[attr-defined]


def test_every_row_carries_its_own_name() -> None:
    assert all(method.row.name == name for name, method in METHODS.items())
    assert all(method.row.summary and method.row.paper for method in METHODS.values())


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'tailwise'"):
        generator_for("tailwsie")
