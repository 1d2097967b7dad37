"""The blocks that a tile holds: how their own states become logits, and the derivatives back.

A block of many codes is a product of its own. Blocks of a few codes are many, and would take longer to call than to
compute: they are filled up to one width and multiplied together. Gain over one by one for the first 573 of 2,000 codes
in 120 blocks, 457 visits, processor time of one thread: 2.4 forward, 1.2 backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

#: Blocks of at most so many codes are multiplied together, and how many such blocks in a row are worth it.
_FEW_CODES, _MANY_BLOCKS = (4, 8, 16), 8


class Segment(NamedTuple):
    """The part of a tile that belongs to one block."""

    block: int
    in_tile: slice
    codes: slice
    #: Whether an earlier tile had codes of this block.
    goes_on: bool

    @property
    def n_codes(self) -> int:
        """How many codes of the block lie in the tile."""
        return self.codes.stop - self.codes.start

    def add(self, logits: Tensor, inner: Tensor, lifted: Tensor) -> None:
        """Add L·u of the block to the logits of a tile; `inner` (rows, blocks, hidden) of its rows."""
        logits[:, self.in_tile].addmm_(inner[:, self.block], lifted[self.codes].t())

    def take_back(
        self, residual: Tensor, inner: Tensor, lifted: Tensor, by_inner: Tensor, by_lifted: Tensor, first: bool
    ) -> None:
        """Write the derivatives by u and L, or add them to those of earlier tiles and bands of rows."""
        mine = residual[:, self.in_tile]
        by_inner[:, self.block].addmm_(mine, lifted[self.codes], beta=float(self.goes_on))
        by_lifted[self.codes].addmm_(mine.t(), inner[:, self.block], beta=float(not first))

    def of_codes(self, of_blocks: Tensor) -> Tensor:
        """What is given for each row and block (rows, blocks), for the codes of the block."""
        return of_blocks[:, self.block, None]

    def add_sums(self, by_rows: Tensor, of_codes: Tensor) -> None:
        """Add the sums over codes of a tile (rows, codes) to what is given for each row and block."""
        by_rows[:, self.block] += of_codes[:, self.in_tile].sum(1)


class SmallBlocks(NamedTuple):
    """Several whole blocks of few codes, one after the other, as if they all had the same number of codes."""

    blocks: slice
    in_tile: slice
    codes: slice
    columns: Tensor  # (blocks, most codes) numbers of codes from the first one on; one more than all for none
    place: Tensor  # (codes,) where each code stands in that table
    block_of_code: Tensor  # (codes,) numbers of blocks from the first one on

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> SmallBlocks:
        """Segments that are whole blocks, one after the other.

        >>> two = [Segment(5, slice(0, 1), slice(9, 10), False), Segment(6, slice(1, 3), slice(10, 12), False)]
        >>> [x.tolist() for x in SmallBlocks.of(two)[3:]]
        [[[0, 3], [1, 2]], [0, 2, 3], [0, 1, 1]]
        """
        first, last = segments[0], segments[-1]
        sizes = torch.tensor([segment.n_codes for segment in segments])
        width, n = int(sizes.max()), int(sizes.sum())
        block = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        place = block * width + torch.arange(n) - (torch.cumsum(sizes, 0) - sizes)[block]
        columns = torch.full((len(sizes) * width,), n)
        columns[place] = torch.arange(n)
        return cls(
            slice(first.block, last.block + 1), slice(first.in_tile.start, last.in_tile.stop),
            slice(first.codes.start, last.codes.stop), columns.view(-1, width), place, block,
        )  # fmt: skip

    def _filled(self, rows: Tensor) -> Tensor:
        """(blocks, most codes, n) rows (codes, n) by block, filled up with zeros."""
        more = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        return more.index_select(0, self.columns.view(-1)).view(*self.columns.shape, -1)

    def add(self, logits: Tensor, inner: Tensor, lifted: Tensor) -> None:
        """Add L·u of the blocks to the logits of a tile."""
        of_blocks = torch.bmm(self._filled(lifted[self.codes]), inner[:, self.blocks].permute(1, 2, 0))
        logits[:, self.in_tile] += of_blocks.flatten(0, 1).index_select(0, self.place).t()

    def take_back(
        self, residual: Tensor, inner: Tensor, lifted: Tensor, by_inner: Tensor, by_lifted: Tensor, first: bool
    ) -> None:
        """Write the derivatives by u and L, or add them to those of earlier bands of rows."""
        mine = self._filled(residual[:, self.in_tile].t())
        by_inner[:, self.blocks] = torch.bmm(mine.transpose(1, 2), self._filled(lifted[self.codes])).transpose(0, 1)
        more = torch.bmm(mine, inner[:, self.blocks].transpose(0, 1)).flatten(0, 1).index_select(0, self.place)
        by_lifted[self.codes] = more if first else by_lifted[self.codes] + more

    def of_codes(self, of_blocks: Tensor) -> Tensor:
        """What is given for each row and block (rows, blocks), for the codes of the blocks."""
        return of_blocks[:, self.blocks].index_select(1, self.block_of_code)

    def add_sums(self, by_rows: Tensor, of_codes: Tensor) -> None:
        """Add the sums over codes of a tile (rows, codes) to what is given for each row and block."""
        mine = of_codes[:, self.in_tile].t().contiguous()
        codes = torch.arange(len(mine))
        starts = torch.searchsorted(self.block_of_code, torch.arange(len(self.columns)))
        by_rows[:, self.blocks] += F.embedding_bag(codes, mine, starts, mode="sum").t()


@lru_cache(maxsize=1024)
def _runs(left: int, right: int, edges: tuple[int, ...]) -> tuple[tuple[Segment, ...], ...]:
    """The segments of a tile: those that are multiplied together, or a single one. Every step has the same tiles."""
    found = []
    for block, (begin, end) in enumerate(pairwise(edges)):
        low, high = max(begin, left), min(end, right)
        if low < high:
            whole = (low, high) == (begin, end)
            width = next((few for few in _FEW_CODES if whole and high - low <= few), 0)
            found.append((width, Segment(block, slice(low - left, high - left), slice(low, high), low > begin)))
    out: list[tuple[Segment, ...]] = []
    for width, run in groupby(found, key=lambda each: each[0]):
        segments = tuple(segment for _, segment in run)
        out += [segments] if width and len(segments) >= _MANY_BLOCKS else [(segment,) for segment in segments]
    return tuple(out)


def segments_of(codes: slice, edges: tuple[int, ...]) -> list[Segment | SmallBlocks]:
    """The blocks that the codes of a tile cut, `edges` being where blocks begin and the last one ends."""
    runs = _runs(codes.start, codes.stop, edges)
    return [run[0] if len(run) == 1 else SmallBlocks.of(run) for run in runs]
