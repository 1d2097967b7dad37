"""Codes group by group, and sums over the codes of each group."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Members(NamedTuple):
    """Some codes, group by group, and where each group begins and the last one ends."""

    codes: Tensor  # (codes,)
    starts: Tensor  # (groups + 1,)

    def sums(self, by_code: Tensor, weights: Tensor | None = None) -> Tensor:
        """(groups, n) the sums of rows (codes, n) over the codes of each group, each times its weight (codes,)."""
        weights = None if weights is None else weights.index_select(0, self.codes)
        return F.embedding_bag(self.codes, by_code, self.starts[:-1], mode="sum", per_sample_weights=weights)


def members(of_code: Tensor, n_groups: int) -> Members:
    """The codes of each group, from the group of each code.

    >>> found = members(torch.tensor([2, 0, 2]), 3)
    >>> [x.tolist() for x in found]
    [[1, 0, 2], [0, 1, 1, 3]]
    >>> found.sums(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 1.0, 10.0])).tolist()
    [[2.0], [0.0], [31.0]]
    """
    ends = torch.cumsum(torch.bincount(of_code, minlength=n_groups), 0)
    return Members(torch.argsort(of_code, stable=True), F.pad(ends, (1, 0)))
