"""Codes drawn block by block, several blocks ahead.

Most blocks of a visit come out empty and change nothing for the blocks after them. So the logits of a window of blocks
are computed at once, as if all of it came out empty. A patient for whom it does is through; for the others this holds
up to their first block with a code. They draw it, and what comes after that block is computed again for them alone. The
law is that of one block after the other, and so are the random numbers: block k of a patient always has the same ones.

Gain over one block after the other (`python benchmarks/draws.py`: processor time of one thread, on a busy machine): 3.6
for 500 codes and visits of up to three, 2.5 for 2,000 codes and visits of up to thirty.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from adapcla.models.company import Listener
from adapcla.models.contract import Drawn, DrawRule
from adapcla.models.counting import MOST_COUNTED, NumberTables
from adapcla.models.draws import FIRST_CHANNEL, Noise, bernoulli_codes, block_codes, first_arrivals, hazard_line

#: Blocks and codes that are looked ahead at most, but for a larger block by itself. Of more, more is computed again
#: after each code; fewer are asked one after the other.
_AHEAD, _CODES_AHEAD = 40, 1024
#: Heads of so few blocks draw one after the other: few of their blocks come out empty.
_ONE_BY_ONE = 40


class Window(NamedTuple):
    """Some blocks that follow each other, and their codes, in a layout in which all have the size of the largest."""

    blocks: slice
    codes: slice
    ends: Tensor  # (blocks,) behind the last code of each, counted from the first code
    padded: Tensor  # (blocks, largest) the code at each place; where a block has none, its last one
    place_of_code: Tensor  # (codes,) in the flat layout

    @classmethod
    def of(cls, sizes: list[int], first_block: int, first_code: int) -> Window:
        """The window of blocks of these sizes.

        >>> window = Window.of([1, 2], first_block=4, first_code=7)
        >>> window.codes, window.padded.tolist(), window.place_of_code.tolist()
        (slice(7, 10, None), [[0, 0], [1, 2]], [0, 2, 3])
        """
        size = torch.tensor(sizes)
        ends, largest = torch.cumsum(size, 0), int(size.max())
        place = torch.arange(largest)
        padded = (ends - size)[:, None] + torch.minimum(place[None], size[:, None] - 1)
        flat = torch.arange(len(sizes) * largest).view(len(sizes), largest)[place < size[:, None]]
        blocks = slice(first_block, first_block + len(sizes))
        return cls(blocks, slice(first_code, first_code + int(ends[-1])), ends, padded, flat)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.ends)

    def products(self, inner: Tensor, lifted: Tensor) -> Tensor:
        """(rows, codes) what the state of each block (blocks, rows, hidden) says of its own codes (codes, hidden)."""
        if self.n_blocks == 1:
            return inner[0] @ lifted.t()
        of_blocks = torch.bmm(inner, lifted[self.padded].transpose(1, 2))  # (blocks, rows, largest)
        return of_blocks.transpose(0, 1).flatten(1).index_select(1, self.place_of_code)


def windows(sizes: list[int], alone: list[bool]) -> Iterator[Window]:
    """Blocks of codes of their own in windows, if there are many, and each block of choice groups as one, in order.

    >>> [window.n_blocks for window in windows([2] + [1] * 50, [False] + [True] * 50)]
    [1, 40, 10]
    """
    begins, first = [0, *accumulate(sizes)], 0
    while first < len(sizes):
        last = first + 1
        most = min(len(sizes), first + (_AHEAD if len(sizes) > _ONE_BY_ONE else 1))
        while alone[first] and last < most and alone[last] and begins[last + 1] - begins[first] <= _CODES_AHEAD:
            last += 1
        yield Window.of(sizes[first:last], first, begins[first])
        first = last


class VisitsSoFar:
    """Visits that are being drawn: the logits of what is to come, given the codes that came out so far."""

    def __init__(
        self,
        base: Tensor,
        state: Tensor,
        block: Tensor,
        within: Tensor,
        lifted: Tensor,
        rule: DrawRule,
        numbers: NumberTables | None = None,
        listener: Listener | None = None,
    ) -> None:
        #: (visits, codes) what the history says, and (visits, hidden) the state within the visit.
        self.base, self.state = base, state
        self.block, self.within, self.lifted, self.rule = block, within, lifted, rule
        self.numbers, self.listener = numbers, listener
        self.number = torch.zeros(len(base), dtype=torch.int64)

    def logits(self, window: Window, rows: Tensor | None = None, listening: bool = True) -> Tensor:
        """(rows, codes of the window), as if none of its blocks brought a code; of all visits if None."""

        def of_rows(x: Tensor) -> Tensor:
            return x if rows is None else x.index_select(0, rows)

        state, number = of_rows(self.state), of_rows(self.number)
        if self.numbers is not None:
            state = state + F.embedding(number, self.numbers.states)
        inner = F.gelu(state + self.block[window.blocks, None])  # (blocks, rows, hidden)
        lifted = self.lifted[window.codes]
        if self.numbers is not None:
            # One more unit of the state, which all codes of a block hear alike.
            shifts = self.numbers.shifts[window.blocks].index_select(1, number)
            inner, lifted = torch.cat([inner, shifts], dim=2), torch.cat([lifted, torch.ones(len(lifted), 1)], dim=1)
        logits = of_rows(self.base[:, window.codes]) + window.products(inner, lifted)
        if self.listener is not None and listening:
            logits = logits + self.listener.heard(window.codes, rows)
        return self.rule.applied(logits, window.codes)

    def take(self, who: NDArray[np.int64], codes: NDArray[np.int64], speaking: bool = True) -> None:
        """These codes came out in these visits."""
        if not len(who):
            return
        rows = torch.from_numpy(who)
        self.state.index_add_(0, rows, self.within[torch.from_numpy(codes)])
        self.number.index_add_(0, rows, torch.ones_like(rows)).clamp_(max=MOST_COUNTED)
        if self.listener is not None and speaking:
            self.listener.listen(who, codes)


def draw_ahead(visits: VisitsSoFar, window: Window, noise: Noise) -> Drawn:
    """(visit, code) pairs of a window of blocks of independent codes, drawn and taken block after block."""
    if window.n_blocks == 1:
        who, codes = bernoulli_codes(visits.logits(window), None, noise, FIRST_CHANNEL + window.blocks.start)
        visits.take(who, codes + window.codes.start)
        return who, codes + window.codes.start
    first = first_arrivals(noise, window.blocks)
    active, begin = np.arange(len(first)), np.zeros(len(first), dtype=np.int64)
    blocks, ends = np.arange(window.n_blocks), window.ends.numpy()
    drawn: list[Drawn] = []
    while len(active):
        logits = visits.logits(window, None if len(active) == len(first) else torch.from_numpy(active))
        line = hazard_line(logits)
        upto = line.index_select(1, window.ends - 1).numpy()
        before = np.concatenate([np.zeros((len(upto), 1)), upto[:, :-1]], axis=1)
        hit = (first[active] < upto - before) & (blocks >= begin[active, None])
        some = np.flatnonzero(hit.any(axis=1))
        block, active = hit[some].argmax(axis=1), active[some]
        if not len(some):
            break
        stretch = before[some, block], upto[some, block]
        which, codes = block_codes(line, some, stretch, noise.keep(active), window.blocks.start + block)
        # Rounding may put a point of a block's stretch behind its end.
        codes = np.clip(codes, np.r_[0, ends][block[which]], ends[block[which]] - 1)
        key = np.unique(active[which] * int(ends[-1]) + codes)  # a code hit twice is one code
        who, codes = np.divmod(key, int(ends[-1]))
        visits.take(who, codes + window.codes.start)
        drawn.append((who, codes + window.codes.start))
        begin[active] = block + 1
        active = active[block + 1 < window.n_blocks]
    return _together(drawn)


def _together(drawn: list[Drawn]) -> Drawn:
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *(who for who, _ in drawn)]), np.concatenate([none, *(codes for _, codes in drawn)])
