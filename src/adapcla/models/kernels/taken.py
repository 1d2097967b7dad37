"""Numbers and rows that are taken many times, with gradients that are added up fast.

The gradient of an index, and that of `F.embedding`, goes through the places one by one. Gain over `F.embedding`,
forward and backward, processor time of one thread: 13 for 55,000 places of 64 numbers (`taken`), 2.4 for 55,000 places
of 5,000 rows of 16 units (`repeated`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        numbers, index = arguments
        ctx.save_for_backward(index)
        ctx.n = len(numbers)
        out: Tensor = numbers.index_select(0, index.view(-1)).view(index.shape)  # several times as fast as an index
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        sums = torch.bincount(index.view(-1), upstream[0].reshape(-1), minlength=ctx.n)
        return sums.to(upstream[0].dtype), None


def taken(numbers: Tensor, index: Tensor) -> Tensor:
    """`numbers[index]` of few numbers (n,) for many places, with gradients that are added up fast.

    >>> taken(torch.tensor([5.0, 6.0]), torch.tensor([1, 1, 0])).tolist()
    [6.0, 6.0, 5.0]
    """
    out: Tensor = _Taken.apply(numbers, index.contiguous())
    return out


class _Repeated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        rows, index = arguments
        ctx.save_for_backward(index)
        ctx.n = len(rows)
        out: Tensor = rows.index_select(0, index)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        starts = torch.searchsorted(index, torch.arange(ctx.n))
        return F.embedding_bag(torch.arange(len(index)), upstream[0].contiguous(), starts, mode="sum"), None


def repeated(rows: Tensor, index: Tensor) -> Tensor:
    """`rows[index]` (places, d) of rows (n, d), each of them several times in a row: the index must ascend.

    >>> repeated(torch.tensor([[5.0], [6.0]]), torch.tensor([0, 0, 1])).tolist()
    [[5.0], [5.0], [6.0]]
    """
    out: Tensor = _Repeated.apply(rows, index)
    return out
