"""Binary cross-entropy over a wide vocabulary with sparse targets, without a dense target or a stored logit.

Σ_c softplus(z_c) − Σ_{c in visit} z_c, computed in row chunks; the gradient is formed in the same pass, so that the
rows × codes matrix exists for one chunk at a time only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

#: Logits held at once; bounds the memory of a chunk at 64 MB.
CHUNK_ELEMENTS = 1 << 24


class SparseTargets(NamedTuple):
    """Which codes are present, as (row, code) pairs sorted by row, and how often each row counts."""

    rows: Tensor  # (entries,) ascending
    codes: Tensor  # (entries,)
    multiplicity: Tensor  # (rows,) number of visits that a row predicts


def sparse_targets(rows: Tensor, codes: Tensor, visit_rows: Tensor, n_rows: int) -> SparseTargets:
    """Targets from unsorted pairs and the row that predicts each visit."""
    order = torch.argsort(rows, stable=True)
    counts = torch.bincount(visit_rows, minlength=n_rows).to(torch.float32)
    return SparseTargets(rows[order], codes[order], counts)


class _SparseBCE(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: SparseTargets,
        positive_weight: float,
    ) -> Tensor:
        n_rows, n_codes = states.shape[0], weight.shape[0]
        step = max(1, CHUNK_ELEMENTS // max(n_codes, 1))
        total = torch.zeros((), dtype=torch.float64)
        d_states, d_weight, d_bias = torch.empty_like(states), None, None
        edges = torch.searchsorted(targets.rows, torch.arange(0, n_rows + step, step)).tolist()
        for number, low in enumerate(range(0, n_rows, step)):
            high = min(low + step, n_rows)
            part = states[low:high]
            rows = targets.rows[edges[number] : edges[number + 1]] - low
            codes = targets.codes[edges[number] : edges[number + 1]]
            times = targets.multiplicity[low:high]
            logits = torch.addmm(bias, part, weight.t())  # (rows, V)
            positives = logits[rows, codes]
            total += (F.softplus(logits).sum(1) @ times).double() - positives.sum().double()
            residual = logits.sigmoid_().mul_(times[:, None])
            pull = torch.full_like(positives, -1.0)
            if positive_weight != 1.0:
                total += (positive_weight - 1.0) * F.softplus(-positives).sum().double()
                pull -= (positive_weight - 1.0) * torch.sigmoid(-positives)
            residual.index_put_((rows, codes), pull, accumulate=True)
            torch.mm(residual, weight, out=d_states[low:high])
            # Most losses fit one chunk: a first product saves filling a vocabulary-wide table with zeros.
            d_weight = residual.t() @ part if d_weight is None else d_weight.addmm_(residual.t(), part)
            d_bias = residual.sum(0) if d_bias is None else d_bias.add_(residual.sum(0))
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return total.to(states.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_states, d_weight, d_bias = ctx.saved_tensors
        scale = upstream[0]
        return scale * d_states, scale * d_weight, scale * d_bias, None, None


def sparse_bce(
    states: Tensor, weight: Tensor, bias: Tensor, targets: SparseTargets, positive_weight: float = 1.0
) -> Tensor:
    """The summed loss of states (rows, d) against sparse targets, with gradients; logits = states · weightᵀ + bias.

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(1))
    >>> float(sparse_bce(torch.zeros(1, 2), torch.zeros(3, 2), torch.zeros(3), targets)) / 3  # ln 2 a code
    0.693...
    """
    out: Tensor = _SparseBCE.apply(states, weight, bias, targets, positive_weight)
    return out


@torch.no_grad()
def sparse_nll(
    states: Tensor, weight: Tensor, bias: Tensor, visit_rows: Tensor, visit_of_entry: Tensor, codes: Tensor
) -> Tensor:
    """The negative log-likelihood of each visit (visits,), in nats; `codes` and `visit_of_entry` list its entries."""
    n_rows, n_codes = states.shape[0], weight.shape[0]
    step = max(1, CHUNK_ELEMENTS // max(n_codes, 1))
    base = torch.empty(n_rows, dtype=torch.float64)
    for low in range(0, n_rows, step):
        logits = torch.addmm(bias, states[low : low + step], weight.t())
        base[low : low + step] = F.softplus(logits).sum(1).double()
    out = base[visit_rows]
    entry_logits = (states[visit_rows[visit_of_entry]] * weight[codes]).sum(1) + bias[codes]
    return out.index_add_(0, visit_of_entry, -entry_logits.double())
