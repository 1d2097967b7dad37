"""Vectors of codes that are mixed from their own and those of their families.

Gain over sums of `F.embedding` (`python benchmarks/kernels.py --kernels mixed`: forward and backward, processor time
of one thread, width 256, three levels of families): 3.9 for 2,000 and for 10,000 codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.models.kernels.members import Members, members


class Level(NamedTuple):
    """Families of one level."""

    of_code: Tensor  # (codes,) the family of each code
    members: Members

    @classmethod
    def of(cls, of_code: Tensor, n_families: int) -> Level:
        """From the family of each code."""
        return cls(of_code, members(of_code, n_families))


def mixed_plain(parts: Sequence[Tensor], levels: Sequence[Level], beliefs: Sequence[Tensor] = ()) -> Tensor:
    """The table as autograd differentiates it by itself."""
    table = torch.zeros(())
    for number, part in enumerate(parts):
        rows = F.embedding(levels[number - 1].of_code, part) if number else part
        table = table + (rows * beliefs[number] if len(beliefs) else rows)
    return table


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        ctx.levels, ctx.beliefs, *parts = arguments
        beliefs = ctx.beliefs
        table: Tensor = parts[0] * beliefs[0] if beliefs else parts[0].clone()
        for number, level in enumerate(ctx.levels, start=1):
            rows = parts[number].index_select(0, level.of_code)
            table = table.addcmul_(rows, beliefs[number]) if beliefs else table.add_(rows)
        return table

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        slopes, beliefs = upstream[0].contiguous(), ctx.beliefs
        by_parts = [slopes * beliefs[0] if beliefs else slopes]
        for number, level in enumerate(ctx.levels, start=1):
            by_parts.append(level.members.sums(slopes, beliefs[number][:, 0] if beliefs else None))
        return (None, None, *by_parts)


def mixed(parts: Sequence[Tensor], levels: Sequence[Level], beliefs: Sequence[Tensor] = ()) -> Tensor:
    """(codes, d) the own vectors of codes, and those of the family of each code at each level, each times its belief.

    `parts` are the own vectors and those of the families of each level; `beliefs` (codes, 1) are 1 where not given.

    >>> own, of_families = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0]])
    >>> mixed([own, of_families], [Level.of(torch.tensor([0, 0]), 1)]).tolist()
    [[11.0], [12.0]]
    """
    out: Tensor = _Mixed.apply(tuple(levels), tuple(beliefs), *parts)
    return out
