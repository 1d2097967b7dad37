"""What codes say of an asked one, against chances that are computed another way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adapcla.generation.model import Model
from adapcla.generation.partners import partners_of
from adapcla.models.base import DrawRule

ATTRIBUTES = np.array([[1]])


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_where_codes_come_at_once_or_one_after_another_nothing_is_heard(
    small_model: Callable[..., Model], method: str
) -> None:
    found = partners_of(small_model(method), np.array([6]), DrawRule(), ATTRIBUTES)
    assert not found.heard.any() and not found.said.any() and not found.tilts(-1.0, 1.0).any()


def test_asked_codes_and_those_that_must_not_be_moved_are_left_alone(small_model: Callable[..., Model]) -> None:
    found = partners_of(small_model("tailwise"), np.array([6, 5]), DrawRule(), ATTRIBUTES)
    assert not found.heard[:, [5, 6]].any()
    assert (found.tilts(-1.0, 0.0)[found.heard] == -1.0).all() and not found.tilts(-1.0, 0.5)[~found.heard].any()
