"""The loss of codes in blocks, where a block's logits are W·h + L·u of a history state h and the block's own u.

All blocks of a tile share the product with the history. First visits all have the same history, the empty one: what it
says is computed once, not once per visit.

Gain over the plain form (`python benchmarks/kernels.py`: forward and backward, processor time of one thread, width 256,
24 blocks with 64 units each, two runs on a busy machine): 1.0 to 1.1 and 1.2 for 700 visits of 3,000 and 7,000 codes,
1.1 to 1.3 and 1.3 to 1.6 for 2,000 visits. With `--memory`, the peak rises by 81 MB against 35 for 700 visits of 7,000
codes.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.networks.kernels.bce import Scratch, SparseTargets, Tile, bce_of_logits, slopes_, tiles


class SharedFirst(NamedTuple):
    """Visits in an order in which those with the most shared state row come first."""

    rows: Tensor  # (distinct,) the shared row, then the row of each other visit
    place: Tensor  # (visits,) where each visit went

    @property
    def row_of_place(self) -> Tensor:
        """(visits,) which of the rows each place in the new order has."""
        n_shared = len(self.place) - len(self.rows) + 1
        return (torch.arange(len(self.place)) - n_shared + 1).clamp_(min=0)


def shared_first(row_before: Tensor) -> SharedFirst:
    """The order of visits by which the most shared row is written once.

    >>> order = shared_first(torch.tensor([5, 7, 5]))
    >>> order.rows.tolist(), order.place.tolist(), order.row_of_place.tolist()
    ([5, 7], [0, 2, 1], [0, 0, 1])
    """
    shared = torch.bincount(row_before).argmax()
    other = row_before != shared
    order = torch.argsort(other.to(torch.int8), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    return SharedFirst(torch.cat([shared[None], row_before[other]]), place)


class _Segment(NamedTuple):
    """The part of a tile that belongs to one block."""

    block: int
    in_tile: slice
    codes: slice
    #: Whether an earlier tile had codes of this block.
    goes_on: bool


def _segments(tile: Tile, edges: list[int]) -> list[_Segment]:
    """The blocks that a tile cuts, `edges` being where blocks begin and the last one ends."""
    left, right = tile.codes.start, tile.codes.stop
    out = []
    for block, (begin, end) in enumerate(pairwise(edges)):
        low, high = max(begin, left), min(end, right)
        if low < high:
            out.append(_Segment(block, slice(low - left, high - left), slice(low, high), low > begin))
    return out


class BlockParts(NamedTuple):
    """What logits in blocks are made of, or the derivatives by it.

    Row 0 of the history belongs to as many first visits as there are more visits than rows, and one; each later visit
    has a row of its own (`shared_first` makes that order).
    """

    history: Tensor  # (rows, d)
    inner: Tensor  # (visits, blocks, hidden)
    weight: Tensor  # (codes, d)
    lifted: Tensor  # (codes, hidden)
    bias: Tensor  # (codes,)


def block_bce_plain(
    parts: BlockParts, sizes: list[int], targets: SparseTargets, positive_weight: float = 1.0
) -> Tensor:
    """The summed loss as autograd differentiates it by itself; the shared row is multiplied once here too."""
    row_of_visit = (torch.arange(len(parts.inner)) - len(parts.inner) + len(parts.history)).clamp_(min=0)
    base = F.embedding(row_of_visit, torch.addmm(parts.bias, parts.history, parts.weight.t()))
    # Parts of a split have cheap gradients; that of a slice is as wide as the whole.
    blocks = zip(base.split(sizes, dim=1), parts.inner.unbind(1), parts.lifted.split(sizes), strict=True)
    logits = torch.cat([torch.addmm(start, inner, lifted.t()) for start, inner, lifted in blocks], dim=1)
    return bce_of_logits(logits, targets, positive_weight)


def _value_and_slopes(
    parts: BlockParts, sizes: list[int], targets: SparseTargets, positive_weight: float
) -> tuple[Tensor, BlockParts]:
    """The summed loss and its derivatives."""
    history, inner, weight, lifted, bias = parts
    slopes = BlockParts(*(torch.empty_like(x) for x in parts))
    from_shared = torch.zeros_like(bias)  # what visits with the shared row say of each code
    shared_logits = torch.addmv(bias, weight, history[0])
    n_shared = len(inner) - len(history) + 1
    edges, scratch, total = [0, *accumulate(sizes)], Scratch(bias.dtype), torch.zeros((), dtype=torch.float64)
    for tile in tiles(targets, len(inner), len(weight)):
        low, high, codes = tile.rows.start, tile.rows.stop, tile.codes
        first, table = not low, weight[codes]
        cut = min(max(n_shared - low, 0), high - low)
        own = slice(low + cut - n_shared + 1, high - n_shared + 1)
        residual = scratch.of(high - low, len(table))
        residual[:cut] = shared_logits[codes]
        torch.addmm(bias[codes], history[own], table.t(), out=residual[cut:])
        segments = _segments(tile, edges)
        for block, here, there, _ in segments:
            residual[:, here].addmm_(inner[tile.rows, block], lifted[there].t())
        total += slopes_(residual, tile.present, targets.multiplicity[tile.rows], positive_weight)
        for block, here, there, goes_on in segments:
            slopes.inner[tile.rows, block].addmm_(residual[:, here], lifted[there], beta=float(goes_on))
            slopes.lifted[there].addmm_(residual[:, here].t(), inner[tile.rows, block], beta=float(not first))
        # The first tile of a row or a column writes what the others add to: no table is filled with zeros.
        slopes.history[own].addmm_(residual[cut:], table, beta=float(codes.start > 0))
        slopes.weight[codes].addmm_(residual[cut:].t(), history[own], beta=float(not first))
        from_own = residual[cut:].sum(0)
        slopes.bias[codes] = from_own if first else slopes.bias[codes] + from_own
        from_shared[codes] += residual[:cut].sum(0)
    slopes.bias.add_(from_shared)
    slopes.weight.addr_(from_shared, history[0])
    torch.mv(weight.t(), from_shared, out=slopes.history[0])
    return total, slopes


class _BlockBCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        parts, (sizes, targets, positive_weight) = BlockParts(*arguments[:5]), arguments[5:]
        total, slopes = _value_and_slopes(parts, sizes, targets, positive_weight)
        ctx.save_for_backward(*slopes)
        return total.to(parts.bias.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (*(upstream[0] * slope for slope in ctx.saved_tensors), None, None, None)


def block_bce(parts: BlockParts, sizes: list[int], targets: SparseTargets, positive_weight: float = 1.0) -> Tensor:
    """The summed loss of visits against sparse targets, with gradients; `sizes` are the blocks' numbers of codes.

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(2))
    >>> shapes = (1, 2), (2, 1, 4), (3, 2), (3, 4), (3,)
    >>> float(block_bce(BlockParts(*map(torch.zeros, shapes)), [3], targets)) / 6  # ln 2 per code of two visits
    0.693...
    """
    out: Tensor = _BlockBCE.apply(*parts, sizes, targets, positive_weight)
    return out
