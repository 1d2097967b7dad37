"""Which codes of a visit are drawn together, and in which order: the blocks of the blockwise head."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.models.groups import Groups

#: As many blocks as any vocabulary may have. Of more, each holds four codes or more on average: they take longer to
#: draw, and tell less apart the fewer codes they hold.
_FEW_BLOCKS = 60


def block_sizes(n_codes: int, n_blocks: int, smallest: int = 4) -> list[int]:
    """Sizes of blocks that grow geometrically and sum to the number of codes.

    >>> block_sizes(100, 4)
    [4, 10, 25, 61]
    >>> len(block_sizes(600, 120, smallest=1)), len(block_sizes(300, 120, smallest=1))
    (120, 75)
    >>> sum(block_sizes(6869, 24))
    6869
    """
    n_blocks = max(1, min(n_blocks, n_codes // smallest, max(_FEW_BLOCKS, n_codes // 4)))
    if n_blocks == 1:
        return [n_codes]
    powers = np.arange(n_blocks)
    low, high = 1.0, 1.0 + n_codes
    with np.errstate(over="ignore"):  # a sum that is no longer a number is too large as well
        for _ in range(100):  # the growth rate at which the blocks sum to the number of codes
            rate = (low + high) / 2
            low, high = (rate, high) if smallest * (rate**powers).sum() < n_codes else (low, rate)
    edges = np.round(np.cumsum(smallest * low**powers)).astype(int)
    edges[-1] = n_codes
    return [int(size) for size in np.diff(edges, prepend=0)]


class Asked(Protocol):
    """What an architecture says of its blocks."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""

    @property
    def order(self) -> str:
        """`frequent`, `rare` or `mixed`: which codes come first; anything else is taken as `frequent`."""

    @property
    def rare_visits(self) -> int:
        """Training visits below which codes come first in the mixed order."""

    @property
    def counting(self) -> bool:
        """Whether each block is told how many codes the visit holds so far."""


def _blocks(asked: Asked, visits: NDArray[np.float64]) -> tuple[list[int], Tensor]:
    """Sizes of the blocks, and the order of codes in them, which come most frequent first with their training visits.

    Blocks are small where codes are frequent, and begin with single codes where the number of codes is told: what is
    drawn together cannot heed it. In the mixed order a third of the blocks is for the rare codes, all of one size, so
    that two rare codes of a visit are rarely drawn together and can know of each other.
    """
    n_codes, n_blocks, order = len(visits), asked.blocks, np.arange(len(visits))
    smallest = 1 if asked.counting else 4
    if asked.order == "rare":
        return block_sizes(n_codes, n_blocks, smallest)[::-1], torch.from_numpy(order[::-1].copy())
    n_rare = int((visits < asked.rare_visits).sum()) if asked.order == "mixed" else 0
    n_first = min(n_blocks // 3, n_rare // 4)
    if not n_first or n_rare == n_codes:
        return block_sizes(n_codes, n_blocks, smallest), torch.from_numpy(order)
    first = [len(part) for part in np.array_split(order[:n_rare], n_first)]
    others = n_codes - n_rare
    mixed = np.concatenate([order[others:][::-1], order[:others]])
    return [*first, *block_sizes(others, n_blocks - n_first, smallest)], torch.from_numpy(mixed)


def all_blocks(asked: Asked, visits: NDArray[np.float64], groups: Groups | None) -> tuple[list[int], Tensor]:
    """Sizes of all blocks and the order of all codes: blocks of choice groups stand before and behind the others.

    The first groups and the last are blocks of their own. Those between share half as many blocks as there are for
    other codes, if they are more: what is measured in a visit then knows of most that was measured before.
    """
    if groups is None:
        return _blocks(asked, visits)
    stretch = next(groups.plain(), slice(0, 0))
    before = [run.size for run in groups.runs if run.start < stretch.start for _ in range(run.n_groups)]
    behind = [run.size for run in groups.runs if run.start >= stretch.stop for _ in range(run.n_groups)]
    none: tuple[list[int], Tensor] = [], torch.from_numpy(np.zeros(0, dtype=np.int64))
    sizes, order = _blocks(asked, visits[stretch]) if stretch.stop else none
    n_shared = max(1, asked.blocks // 2)
    measured, last = behind[:-1], behind[-1:]
    shared = [int(part.sum()) for part in np.array_split(np.array(measured, dtype=np.int64), n_shared) if len(part)]
    front, end = np.arange(stretch.start), np.arange(stretch.stop, len(visits))
    whole = np.concatenate([front, stretch.start + order.numpy(), end])
    return [*before, *sizes, *shared, *last], torch.from_numpy(whole)
