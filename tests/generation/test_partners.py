"""What codes say of an asked one, against chances that are computed another way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapcla.generation.model import Model
from adapcla.generation.partners import partners_of
from adapcla.generation.proposals import visit_nll
from adapcla.generation.rollout import Rolled
from adapcla.models.base import DrawRule

ATTRIBUTES = np.array([[1]])


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_where_codes_come_at_once_or_one_after_another_nothing_is_heard(
    small_model: Callable[..., Model], method: str
) -> None:
    found = partners_of(small_model(method), np.array([6]), DrawRule(), ATTRIBUTES)
    assert not found.heard.any() and not found.said.any() and not found.tilts(-1.0, 1.0).any()


def test_a_code_hears_of_those_that_are_drawn_before_it(small_model: Callable[..., Model]) -> None:
    """By how much each changes its log-odds is what forbidding it changes in the likelihood."""
    model, asked = small_model("tailwise"), 5
    found = partners_of(model, np.array([asked]), DrawRule(), ATTRIBUTES)
    rank = model.network.rank_of_code
    assert isinstance(rank, torch.Tensor)
    before = np.flatnonzero(rank.numpy() < int(rank[asked]))
    assert np.flatnonzero(found.heard[0]).tolist() == before.tolist() and len(before)
    ones = np.ones(8, dtype=np.int64)
    visits = Rolled(np.arange(8, dtype=np.int32), ones, ones, 0 * ones, np.repeat(ATTRIBUTES, 8, axis=0))
    forbidden = torch.zeros(8)
    forbidden[asked] = -40.0
    chance = 1 - np.exp(visit_nll(model, visits, forbidden) - visit_nll(model, visits, None))
    odds = np.log(chance[before] / (1 - chance[before]))
    # Both are known up to a constant, and chances are not so small here that the log-odds is all.
    assert np.allclose(np.diff(found.said[0, before]), np.diff(odds), atol=0.05)
    assert found.n_visits == 9


def test_asked_codes_and_those_that_must_not_be_moved_are_left_alone(small_model: Callable[..., Model]) -> None:
    found = partners_of(small_model("tailwise"), np.array([6, 5]), DrawRule(), ATTRIBUTES)
    assert not found.heard[:, [5, 6]].any()
    assert (found.tilts(-1.0, 0.0)[found.heard] == -1.0).all() and not found.tilts(-1.0, 0.5)[~found.heard].any()
