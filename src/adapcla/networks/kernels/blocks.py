"""The loss of codes in blocks, where a block's logits are W·h + L·u of a history state h and the block's own u.

All blocks of a tile share the product with the history. First visits all have the same history, the empty one: what it
says is computed once, not once per visit. What codes of earlier blocks say of later ones, pair by pair, is made dense
for one tile at a time, so that pairs cost no memory of visits × codes.

Gain over the plain form (`python benchmarks/kernels.py`: forward and backward, processor time of one thread, width 256,
24 blocks with 64 units each, two runs on a busy machine): 1.0 to 1.1 and 1.2 for 700 visits of 3,000 and 7,000 codes,
1.1 to 1.3 and 1.3 to 1.6 for 2,000 visits. With `--memory`, the peak rises by 81 MB against 35 for 700 visits of 7,000
codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.networks.kernels.bce import Scratch, SparseTargets, Tile, bce_of_logits, slopes_, tiles
from adapcla.networks.kernels.group_sums import Window
from adapcla.networks.kernels.segments import Segment, SmallBlocks, segments_of
from adapcla.networks.kernels.spoken import (
    Added,
    Band,
    Spoken,
    SpokenIn,
    SpokenSlopes,
    add_slopes,
    finish_slopes,
    inside,
    spoken_in,
)

#: Segments of a tile, up to which each is gone through by itself.
_FEW_SEGMENTS = 8


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
    parts: BlockParts,
    sizes: list[int],
    targets: SparseTargets,
    positive_weight: float = 1.0,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The summed loss as autograd differentiates it by itself; the shared row is multiplied once here too."""
    row_of_visit = (torch.arange(len(parts.inner)) - len(parts.inner) + len(parts.history)).clamp_(min=0)
    base = F.embedding(row_of_visit, torch.addmm(parts.bias, parts.history, parts.weight.t()))
    # Parts of a split have cheap gradients; that of a slice is as wide as the whole.
    blocks = zip(base.split(sizes, dim=1), parts.inner.unbind(1), parts.lifted.split(sizes), strict=True)
    logits = torch.cat([torch.addmm(start, inner, lifted.t()) for start, inner, lifted in blocks], dim=1)
    if spoken is not None:
        sums = spoken.sums(*logits.shape)
        logits = logits + sums * spoken.strength.repeat_interleave(torch.tensor(sizes), dim=1)
    if added is not None:
        logits = logits.index_put((added.rows, added.codes), added.values, accumulate=True)
    return bce_of_logits(logits, targets, positive_weight)


class _Slopes(NamedTuple):
    """Derivatives of the summed loss."""

    parts: BlockParts
    added: Tensor  # (lines,)
    spoken: SpokenSlopes | None


class _Tiles:
    """Tile after tile of the logits; what is derived from their slopes goes back to what they were made of."""

    def __init__(
        self, parts: BlockParts, sizes: list[int], targets: SparseTargets, added: Added, spoken: Spoken | None
    ) -> None:
        self.parts, self.targets, self.added, self.spoken = parts, targets, added, spoken
        self.edges = (0, *accumulate(sizes))
        self.block_of_code = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.scratch = Scratch(parts.bias.dtype)
        self.shared_logits = torch.addmv(parts.bias, parts.weight, parts.history[0])
        self.n_shared = len(parts.inner) - len(parts.history) + 1
        self.bands: list[Band] = []

    def rows_of(self, tile: Tile) -> tuple[int, slice]:
        """How many rows of a tile have the shared state, and the states of the others."""
        low, high = tile.rows.start, tile.rows.stop
        cut = min(max(self.n_shared - low, 0), high - low)
        return cut, slice(low + cut - self.n_shared + 1, high - self.n_shared + 1)

    def band_of(self, spoken: Spoken, tile: Tile) -> Band:
        """The entries of a tile's visits, made once for the tiles beside each other."""
        if not self.bands or self.bands[-1].rows != tile.rows:
            self.bands.append(Band(spoken, tile.rows))
        return self.bands[-1]

    def strengths(
        self, spoken: Spoken, tile: Tile, segments: list[Segment | SmallBlocks]
    ) -> Iterator[tuple[slice, Tensor]]:
        """Codes of a tile, and how much is made of what is said of them: (rows, codes), or (rows, 1) for all alike."""
        strength = spoken.strength[tile.rows]
        if len(segments) > _FEW_SEGMENTS:
            yield slice(None), strength.index_select(1, self.block_of_code[tile.codes])
        else:
            yield from ((segment.in_tile, segment.of_codes(strength)) for segment in segments)

    def __iter__(self) -> Iterator[tuple[Tile, Tensor, list[Segment | SmallBlocks], Window, SpokenIn | None]]:
        history, inner, weight, lifted, bias = self.parts
        for tile in tiles(self.targets, len(inner), len(weight)):
            codes, table = tile.codes, weight[tile.codes]
            n_shared, own = self.rows_of(tile)
            logits = self.scratch.of(tile.rows.stop - tile.rows.start, len(table))
            logits[:n_shared] = self.shared_logits[codes]
            torch.addmm(bias[codes], history[own], table.t(), out=logits[n_shared:])
            segments = segments_of(codes, self.edges)
            for segment in segments:
                segment.add(logits, inner[tile.rows], lifted)
            company = None if self.spoken is None else spoken_in(self.spoken, self.band_of(self.spoken, tile), tile)
            if company is not None and self.spoken is not None:
                for some, strength in self.strengths(self.spoken, tile, segments):
                    logits[:, some].addcmul_(company.sums[:, some], strength)
            added = inside(self.added, tile, len(inner))
            logits.index_put_(added.at, self.added.values[added.lines], accumulate=True)
            yield tile, logits, segments, added, company


def _value_and_slopes(tiled: _Tiles, positive_weight: float) -> tuple[Tensor, _Slopes]:
    """The summed loss and its derivatives."""
    (history, inner, weight, lifted, bias), spoken = tiled.parts, tiled.spoken
    by_parts = BlockParts(*(torch.empty_like(x) for x in tiled.parts))
    by_spoken = None if spoken is None else SpokenSlopes.nothing(spoken)
    slopes = _Slopes(by_parts, torch.zeros_like(tiled.added.values), by_spoken)
    from_shared = torch.zeros_like(bias)  # what visits with the shared row say of each code
    total = torch.zeros((), dtype=torch.float64)
    for tile, residual, segments, added, company in tiled:
        codes, first, table = tile.codes, not tile.rows.start, weight[tile.codes]
        n_shared, own = tiled.rows_of(tile)
        times = tiled.targets.multiplicity[tile.rows]
        total += slopes_(residual, tile.present, times, positive_weight, tile.groups)
        slopes.added[added.lines] = residual[added.at]
        for segment in segments:
            back = (by_parts.inner[tile.rows], by_parts.lifted, first)
            segment.take_back(residual, inner[tile.rows], lifted, *back)
        # The first tile of a row or a column writes what the others add to: no table is filled with zeros.
        by_parts.history[own].addmm_(residual[n_shared:], table, beta=float(codes.start > 0))
        by_parts.weight[codes].addmm_(residual[n_shared:].t(), history[own], beta=float(not first))
        from_own = residual[n_shared:].sum(0)
        by_parts.bias[codes] = from_own if first else by_parts.bias[codes] + from_own
        from_shared[codes] += residual[:n_shared].sum(0)
        if company is not None and by_spoken is not None:
            _to_spoken(residual, tile, segments, company, tiled, by_spoken)
    if by_spoken is not None:
        finish_slopes(by_spoken, tiled.bands)
    by_parts.bias.add_(from_shared)
    by_parts.weight.addr_(from_shared, history[0])
    torch.mv(weight.t(), from_shared, out=by_parts.history[0])
    return total, slopes


def _to_spoken(
    residual: Tensor,
    tile: Tile,
    segments: list[Segment | SmallBlocks],
    company: SpokenIn,
    tiled: _Tiles,
    slopes: SpokenSlopes,
) -> None:
    """Add a tile's derivatives by what is spoken; the residual becomes those by the sums."""
    assert tiled.spoken is not None
    by_strength = company.sums.mul_(residual)
    for segment in segments:
        segment.add_sums(slopes.strength[tile.rows], by_strength)
    for some, strength in tiled.strengths(tiled.spoken, tile, segments):
        residual[:, some] *= strength
    add_slopes(slopes, tiled.band_of(tiled.spoken, tile), company, residual)


class _BlockBCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        sizes, targets, positive_weight, added, spoken, *tensors = arguments
        parts, added = BlockParts(*tensors[:5]), added._replace(values=tensors[5])
        if spoken is not None:
            spoken = spoken.of(tensors[6:])
        total, slopes = _value_and_slopes(_Tiles(parts, sizes, targets, added, spoken), positive_weight)
        by_spoken = () if slopes.spoken is None else slopes.spoken.tensors()
        ctx.save_for_backward(*slopes.parts, slopes.added, *by_spoken)
        return total.to(parts.bias.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None,) * 5, *(upstream[0] * slope for slope in ctx.saved_tensors))


def block_bce(
    parts: BlockParts,
    sizes: list[int],
    targets: SparseTargets,
    positive_weight: float = 1.0,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The summed loss of visits against sparse targets, with gradients; `sizes` are the blocks' numbers of codes.

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(2))
    >>> shapes = (1, 2), (2, 1, 4), (3, 2), (3, 4), (3,)
    >>> float(block_bce(BlockParts(*map(torch.zeros, shapes)), [3], targets)) / 6  # ln 2 per code of two visits
    0.693...
    """
    added = Added.nothing(parts.bias.dtype) if added is None else added.by_code()
    learned = () if spoken is None else spoken.tensors()
    out: Tensor = _BlockBCE.apply(sizes, targets, positive_weight, added, spoken, *parts, added.values, *learned)
    return out


@torch.no_grad()
def block_nll(
    parts: BlockParts,
    sizes: list[int],
    targets: SparseTargets,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The negative log-likelihood of each visit (visits,), in nats and in double precision."""
    added = Added.nothing(parts.bias.dtype) if added is None else added.by_code()
    nll = torch.zeros(len(parts.inner), dtype=torch.float64)
    for tile, logits, *_ in _Tiles(parts, sizes, targets, added, spoken):
        sums = F.softplus(logits) if tile.groups is None else tile.groups.normalisers(logits)
        nll[tile.rows] += sums.sum(1).double()
        nll.index_add_(0, tile.present[0] + tile.rows.start, -logits[tile.present].double())
    return nll
