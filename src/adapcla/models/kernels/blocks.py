"""The loss of codes in blocks, where a block's logits are W·h + L·u of a history state h and the block's own u.

All blocks of a tile share the product with the history. First visits of like patients have the same history, the empty
one: what it says is computed once, not once per visit. What codes of earlier blocks say of later ones, pair by pair, is
made dense for one tile at a time, so that pairs cost no memory of visits × codes.

Gain over the plain form (`python benchmarks/kernels.py`: forward and backward, processor time of one thread, width 256,
24 blocks with 64 units each): 1.2 and 1.1 for 700 visits of 3,000 and 7,000 codes, 1.3 and 1.8 for 2,000 visits. With
`--memory`, the peak rises by 81 MB against 35 for 700 visits of 7,000 codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.models.kernels.bce import Scratch, SparseTargets, Tile, bce_of_logits, slopes_, tiles
from adapcla.models.kernels.group_sums import Window
from adapcla.models.kernels.segments import Segment, SmallBlocks, segments_of
from adapcla.models.kernels.spoken import (
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
    """Visits in an order in which those that share their state row with others come first, row by row."""

    rows: Tensor  # (distinct,) the shared rows, then the row of each other visit
    place: Tensor  # (visits,) where each visit went
    row_of_place: Tensor  # (visits,) which of the rows each place in the new order has, ascending


def shared_first(row_before: Tensor) -> SharedFirst:
    """The order of visits by which every shared row is written once.

    >>> [x.tolist() for x in shared_first(torch.tensor([5, 7, 5]))]
    [[5, 7], [0, 2, 1], [0, 0, 1]]
    """
    times = torch.bincount(row_before)
    alone = times.index_select(0, row_before) == 1
    order = torch.argsort(torch.where(alone, len(times), row_before), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    rows, row_of_place = torch.unique_consecutive(row_before[order], return_inverse=True)
    return SharedFirst(rows, place, row_of_place)


class Shared(NamedTuple):
    """The first visits, several of which have the same row of the history."""

    n_visits: int
    n_rows: int
    row_of_visit: Tensor  # (visits,) ascending

    @classmethod
    def of(cls, row_of_visit: Tensor) -> Shared:
        """From the row of every visit, ascending.

        >>> Shared.of(torch.tensor([0, 0, 1, 2, 2, 3]))[:2]  # rows 0 to 2 belong to the first five visits
        (5, 3)
        """
        times = torch.bincount(row_of_visit)
        several = (times > 1).nonzero()[:, 0]
        n_rows = int(several[-1]) + 1 if len(several) else 0
        n_visits = int(times[:n_rows].sum())
        return cls(n_visits, n_rows, row_of_visit[:n_visits])

    def sums(self, of_visits: Tensor, visits: slice) -> Tensor:
        """(rows, n) the sums over some of the visits (visits, n) for each row."""
        starts = torch.searchsorted(self.row_of_visit[visits], torch.arange(self.n_rows))
        return F.embedding_bag(torch.arange(len(of_visits)), of_visits, starts, mode="sum")


class BlockParts(NamedTuple):
    """What logits in blocks are made of, or the derivatives by it."""

    history: Tensor  # (rows, d)
    inner: Tensor  # (visits, blocks, hidden)
    weight: Tensor  # (codes, d)
    lifted: Tensor  # (codes, hidden)
    bias: Tensor  # (codes,)


def block_bce_plain(
    parts: BlockParts,
    row_of_visit: Tensor,
    sizes: list[int],
    targets: SparseTargets,
    positive_weight: float = 1.0,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The summed loss as autograd differentiates it by itself; shared rows are multiplied once here too."""
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
        self,
        parts: BlockParts,
        row_of_visit: Tensor,
        sizes: list[int],
        targets: SparseTargets,
        added: Added,
        spoken: Spoken | None,
    ) -> None:
        self.parts, self.targets, self.added, self.spoken = parts, targets, added, spoken
        self.shared = Shared.of(row_of_visit)
        self.edges = (0, *accumulate(sizes))
        self.block_of_code = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.scratch = Scratch(parts.bias.dtype)
        self.bands: list[Band] = []

    def rows_of(self, tile: Tile) -> tuple[int, slice]:
        """How many visits of a tile share their rows, and the rows of the others."""
        low, high = tile.rows.start, tile.rows.stop
        n_shared = min(max(self.shared.n_visits - low, 0), high - low)
        own = self.shared.n_rows - self.shared.n_visits
        return n_shared, slice(low + n_shared + own, high + own)

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
            if n_shared:
                of_rows = torch.addmm(bias[codes], history[: self.shared.n_rows], table.t())
                which = self.shared.row_of_visit[tile.rows.start : tile.rows.start + n_shared]
                torch.index_select(of_rows, 0, which, out=logits[:n_shared])
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
    inner, lifted, spoken = tiled.parts.inner, tiled.parts.lifted, tiled.spoken
    by_parts = BlockParts(*(torch.empty_like(x) for x in tiled.parts))
    by_spoken = None if spoken is None else SpokenSlopes.nothing(spoken)
    slopes = _Slopes(by_parts, torch.zeros_like(tiled.added.values), by_spoken)
    total = torch.zeros((), dtype=torch.float64)
    for tile, residual, segments, added, company in tiled:
        times = tiled.targets.multiplicity[tile.rows]
        total += slopes_(residual, tile.present, times, positive_weight, tile.groups)
        slopes.added[added.lines] = residual[added.at]
        for segment in segments:
            back = (by_parts.inner[tile.rows], by_parts.lifted, not tile.rows.start)
            segment.take_back(residual, inner[tile.rows], lifted, *back)
        _to_history(residual, tile, tiled, by_parts)
        if company is not None and by_spoken is not None:
            _to_spoken(residual, tile, segments, company, tiled, by_spoken)
    if by_spoken is not None:
        finish_slopes(by_spoken, tiled.bands)
    return total, slopes


def _to_history(residual: Tensor, tile: Tile, tiled: _Tiles, slopes: BlockParts) -> None:
    """Add a tile's derivatives by the history, the table of codes and the bias.

    The first tile of a row or a column writes what the others add to: no table is filled with zeros.
    """
    codes, history, weight = tile.codes, tiled.parts.history, tiled.parts.weight[tile.codes]
    new_rows, new_codes = not codes.start, not tile.rows.start
    n_shared, own = tiled.rows_of(tile)
    slopes.history[own].addmm_(residual[n_shared:], weight, beta=float(not new_rows))
    slopes.weight[codes].addmm_(residual[n_shared:].t(), history[own], beta=float(not new_codes))
    by_bias = residual[n_shared:].sum(0)
    if n_shared:
        n_rows, low = tiled.shared.n_rows, tile.rows.start
        sums = tiled.shared.sums(residual[:n_shared], slice(low, low + n_shared))
        slopes.history[:n_rows].addmm_(sums, weight, beta=float(not (new_rows and new_codes)))
        slopes.weight[codes].addmm_(sums.t(), history[:n_rows])
        by_bias += sums.sum(0)
    slopes.bias[codes] = by_bias if new_codes else slopes.bias[codes] + by_bias


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
        row_of_visit, sizes, targets, positive_weight, added, spoken, *tensors = arguments
        parts, added = BlockParts(*tensors[:5]), added._replace(values=tensors[5])
        if spoken is not None:
            spoken = spoken.of(tensors[6:])
        tiled = _Tiles(parts, row_of_visit, sizes, targets, added, spoken)
        total, slopes = _value_and_slopes(tiled, positive_weight)
        by_spoken = () if slopes.spoken is None else slopes.spoken.tensors()
        ctx.save_for_backward(*slopes.parts, slopes.added, *by_spoken)
        return total.to(parts.bias.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None,) * 6, *(upstream[0] * slope for slope in ctx.saved_tensors))


def block_bce(
    parts: BlockParts,
    row_of_visit: Tensor,
    sizes: list[int],
    targets: SparseTargets,
    positive_weight: float = 1.0,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The summed loss of visits against sparse targets, with gradients; `sizes` are the blocks' numbers of codes.

    `row_of_visit` (visits,) is the row of the history that each visit has, ascending; best is the order in which visits
    that share theirs come first (`shared_first`).

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(2))
    >>> shapes = (1, 2), (2, 1, 4), (3, 2), (3, 4), (3,)
    >>> parts = BlockParts(*map(torch.zeros, shapes))
    >>> float(block_bce(parts, torch.tensor([0, 0]), [3], targets)) / 6  # ln 2 per code of two visits
    0.693...
    """
    added = Added.nothing(parts.bias.dtype) if added is None else added.by_code()
    learned = () if spoken is None else spoken.tensors()
    data = (row_of_visit, sizes, targets, positive_weight, added, spoken)
    out: Tensor = _BlockBCE.apply(*data, *parts, added.values, *learned)
    return out


@torch.no_grad()
def block_nll(
    parts: BlockParts,
    row_of_visit: Tensor,
    sizes: list[int],
    targets: SparseTargets,
    added: Added | None = None,
    spoken: Spoken | None = None,
) -> Tensor:
    """The negative log-likelihood of each visit (visits,), in nats and in double precision."""
    added = Added.nothing(parts.bias.dtype) if added is None else added.by_code()
    nll = torch.zeros(len(parts.inner), dtype=torch.float64)
    for tile, logits, *_ in _Tiles(parts, row_of_visit, sizes, targets, added, spoken):
        sums = F.softplus(logits) if tile.groups is None else tile.groups.normalisers(logits)
        nll[tile.rows] += sums.sum(1).double()
        nll.index_add_(0, tile.present[0] + tile.rows.start, -logits[tile.present].double())
    return nll
