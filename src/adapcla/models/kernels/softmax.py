"""Cross-entropy over a wide vocabulary in which some tokens are impossible, in row chunks.

Gain over the plain form (`python benchmarks/kernels.py`: forward and backward, processor time of one thread, width 256,
twelve tokens per visit, two runs on a busy machine): 0.9 to 1.1 for 700 visits of 3,000 or 7,000 codes, where the plain
form goes through chunks of 512 rows; 1.5 to 1.7 where it takes all rows at once. What is gained is memory, which is
bounded here and grows with the tokens there: with `--memory`, the peak rises by 522 MB against 227 for 700 visits of
7,000 codes. Chunks that autograd computes again for the gradient would bound it too and take 1.5 times as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.models.kernels.bce import CHUNK_ELEMENTS


class Choices(NamedTuple):
    """What can follow each row: codes of at least `floor` that are not `gone`, the separator, the end.

    Columns are codes in rank order, then the separator, then the end.
    """

    floor: Tensor  # (rows,) codes below are impossible
    separator: Tensor  # (rows,) bool
    end: Tensor  # (rows,) bool
    gone_rows: Tensor  # (pairs,) ascending
    gone_codes: Tensor  # (pairs,)

    def part(self, low: int, high: int) -> Choices:
        """The choices of some rows."""
        first, last = torch.searchsorted(self.gone_rows, torch.tensor([low, high])).tolist()
        rows = slice(low, high)
        return Choices(
            self.floor[rows],
            self.separator[rows],
            self.end[rows],
            self.gone_rows[first:last] - low,
            self.gone_codes[first:last],
        )

    def apply(self, logits: Tensor) -> Tensor:
        """The logits (rows, codes + 2) with −∞ where something is impossible, in place."""
        n_codes = logits.shape[1] - 2
        if bool((self.floor > 0).any()):
            logits[:, :n_codes].masked_fill_(torch.arange(n_codes) < self.floor[:, None], -torch.inf)
        logits[self.gone_rows, self.gone_codes] = -torch.inf
        logits[:, n_codes].masked_fill_(~self.separator, -torch.inf)
        logits[:, n_codes + 1].masked_fill_(~self.end, -torch.inf)
        return logits


def masked_cross_entropy_plain(
    states: Tensor, weight: Tensor, bias: Tensor, choices: Choices, targets: Tensor
) -> Tensor:
    """The summed −log p of the targets, as autograd differentiates it by itself."""
    logits = choices.apply(torch.addmm(bias, states, weight.t()))
    return F.cross_entropy(logits, targets, reduction="sum")


class _MaskedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, choices: Choices, targets: Tensor) -> Tensor:
        d_states, d_weight, d_bias = torch.empty_like(states), torch.zeros_like(weight), torch.zeros_like(bias)
        total = torch.zeros((), dtype=torch.float64)
        step = max(1, CHUNK_ELEMENTS // weight.shape[0])
        for low in range(0, len(states), step):
            high = min(low + step, len(states))
            logits = choices.part(low, high).apply(torch.addmm(bias, states[low:high], weight.t()))
            every = torch.arange(high - low)
            scale = torch.logsumexp(logits, dim=1)
            total += (scale - logits[every, targets[low:high]]).sum().double()
            residual = logits.sub_(scale[:, None]).exp_()
            residual[every, targets[low:high]] -= 1
            torch.mm(residual, weight, out=d_states[low:high])
            d_weight.addmm_(residual.t(), states[low:high])
            d_bias += residual.sum(0)
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return total.to(states.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_states, d_weight, d_bias = ctx.saved_tensors
        return upstream[0] * d_states, upstream[0] * d_weight, upstream[0] * d_bias, None, None


def masked_cross_entropy(states: Tensor, weight: Tensor, bias: Tensor, choices: Choices, targets: Tensor) -> Tensor:
    """The summed −log p of the targets, with gradients; logits = states · weightᵀ + bias.

    >>> none = torch.zeros(0, dtype=torch.int64)
    >>> yes, no = torch.tensor([True]), torch.tensor([False])
    >>> choices = Choices(torch.tensor([1]), yes, no, none, none)  # of three codes, two are left, and the separator
    >>> zero = torch.zeros
    >>> float(masked_cross_entropy(zero(1, 2), zero(5, 2), zero(5), choices, torch.tensor([2])))  # ln 3
    1.098...
    """
    out: Tensor = _MaskedCrossEntropy.apply(states, weight, bias, choices, targets)
    return out


@torch.no_grad()
def masked_nll(
    states: Tensor, weight: Tensor, bias: Tensor, choices: Choices, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """−log p of each target, and the log-probability of the end at each row, both (rows,) in double precision."""
    nll, end = torch.empty(len(states), dtype=torch.float64), torch.empty(len(states), dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // weight.shape[0])
    for low in range(0, len(states), step):
        high = min(low + step, len(states))
        logits = choices.part(low, high).apply(torch.addmm(bias, states[low:high], weight.t()))
        scale = torch.logsumexp(logits.double(), dim=1)
        nll[low:high] = scale - logits[torch.arange(high - low), targets[low:high]]
        end[low:high] = logits[:, -1] - scale
    return nll, end
