"""Sums over groups are those that an index would add up."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.kernels.members import members


@pytest.mark.parametrize("weighted", [True, False])
def test_sums_are_what_an_index_adds_up(weighted: bool) -> None:
    torch.manual_seed(1)
    group, rows = torch.randint(4, (20,)), torch.randn(20, 3)
    weights = torch.rand(20) if weighted else None
    plain = torch.zeros(6, 3).index_add(0, group, rows if weights is None else rows * weights[:, None])
    torch.testing.assert_close(members(group, 6).sums(rows, weights), plain)  # the last two groups have nobody
