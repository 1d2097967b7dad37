"""What it means that a gradient written by hand is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from adapcla.models.groups import Groups, Run

#: A function of some tensors that gives a loss.
Loss = Callable[..., Tensor]


@pytest.fixture(scope="session")
def agree() -> Callable[[Loss, Loss, list[Tensor]], None]:
    """Whether two losses have the same value and the same gradients, in double and in single precision."""

    def check(by_hand: Loss, plain: Loss, tensors: list[Tensor]) -> None:
        for dtype, close in ((torch.float64, 1e-7), (torch.float32, 1e-4)):
            results = []
            for loss in (by_hand, plain):
                leaves = [tensor.to(dtype).requires_grad_() for tensor in tensors]
                value = loss(*leaves)
                # Twice the loss: what comes from above must be multiplied in.
                results.append([value.detach(), *torch.autograd.grad(2 * value, leaves)])
            for mine, theirs in zip(*results, strict=True):
                assert mine.dtype == dtype
                torch.testing.assert_close(mine, theirs, rtol=close, atol=close)

    return check


@pytest.fixture(scope="session")
def some_groups() -> Callable[[int], Groups | None]:
    """Choice groups before and behind most of the columns, where there are enough; a tile of 64 would cut one."""

    def made(n_columns: int) -> Groups | None:
        if n_columns < 8:
            return None
        behind = (Run(58, 3, 4, 1), Run(n_columns - 6, 2, 3, 4)) if n_columns >= 100 else (Run(n_columns - 4, 2, 2, 1),)
        return Groups((Run(0, 1, 3, 0), *behind), n_columns)

    return made
