"""What is added to logits in blocks: to single codes of single visits, and what codes say of codes of later blocks.

What codes say is made dense for one tile at a time, so that pairs cost no memory of visits × codes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.networks.kernels.bce import Tile


class Added(NamedTuple):
    """What is added to the logits of chosen codes of chosen visits."""

    rows: Tensor  # (lines,) the visit
    codes: Tensor  # (lines,)
    values: Tensor  # (lines,)

    @classmethod
    def nothing(cls, dtype: torch.dtype = torch.float32) -> Added:
        """No line."""
        none = torch.zeros(0, dtype=torch.int64)
        return cls(none, none, torch.zeros(0, dtype=dtype))

    def and_also(self, other: Added) -> Added:
        """Both lists, one after the other."""
        return Added(*(torch.cat(both) for both in zip(self, other, strict=True)))

    def by_code(self) -> Added:
        """The same lines, ascending by code."""
        order = torch.argsort(self.codes, stable=True)
        rows, codes, values = (x.index_select(0, order) for x in self)
        return Added(rows, codes, values)


class Grouped(NamedTuple):
    """What every speaking code says of every code of later blocks, by the groups that both belong to."""

    of_speaker: Tensor  # (speakers,)
    of_code: Tensor  # (codes,)
    values: Tensor  # (groups, groups)


class Spoken(NamedTuple):
    """What the codes of a visit say of codes in later blocks, pair by pair and by group.

    The sum over the codes of a visit is multiplied by a strength of the visit and the block that it speaks to.
    """

    speaker_of_pair: Tensor  # (pairs,) a number of a speaking code
    code_of_pair: Tensor  # (pairs,) whom it speaks of, ascending
    values: Tensor  # (pairs,)
    strength: Tensor  # (visits, blocks)
    #: Corrections of the sums, before they are multiplied; ascending by code.
    corrections: Added
    #: The entries of visits, ascending by visit: the visit, and the number of its code among the speakers.
    visit_of_entry: Tensor
    speaker_of_entry: Tensor
    #: The first code that lies in a later block, for each speaking code; ascending. Every pair leads there or beyond.
    heard_from: Tensor  # (speakers,)
    groups: tuple[Grouped, ...] = ()

    @property
    def n_speakers(self) -> int:
        """Number of speaking codes."""
        return len(self.heard_from)

    def table(self, n_codes: int) -> Tensor:
        """(speakers, codes) what each says of each, with gradients."""
        heard = torch.arange(n_codes) >= self.heard_from[:, None]
        table = torch.zeros(self.n_speakers, n_codes, dtype=self.values.dtype)
        table = table.index_put((self.speaker_of_pair, self.code_of_pair), self.values)
        for group in self.groups:
            table = table + torch.where(heard, group.values[group.of_speaker][:, group.of_code], 0.0)
        return table


class Window(NamedTuple):
    """The lines of a list, ascending by code, that lie in a tile: which they are, and where in the tile."""

    lines: Tensor
    at: tuple[Tensor, Tensor]


def inside(lines: Added, tile: Tile) -> Window:
    """The lines of a tile.

    >>> lines = Added(torch.tensor([4, 0]), torch.tensor([1, 9]), torch.zeros(2))
    >>> tile = Tile(slice(2, 6), slice(0, 5), (torch.zeros(0), torch.zeros(0)))
    >>> inside(lines, tile).lines.tolist(), [at.tolist() for at in inside(lines, tile).at]
    ([0], [[2], [1]])
    """
    low, high = torch.searchsorted(lines.codes, torch.tensor([tile.codes.start, tile.codes.stop])).tolist()
    rows = lines.rows[low:high]
    mine = ((rows >= tile.rows.start) & (rows < tile.rows.stop)).nonzero()[:, 0]
    return Window(low + mine, (rows[mine] - tile.rows.start, lines.codes[low + mine] - tile.codes.start))


class Band(NamedTuple):
    """The entries of the visits of one band of tiles, by visit and by speaking code."""

    rows: slice
    speakers: Tensor  # (entries,) by visit
    visit_starts: Tensor  # (rows,)
    rows_by_speaker: Tensor  # (entries,) by speaking code
    speaker_starts: Tensor  # (speakers,)


def band_of(spoken: Spoken, rows: slice) -> Band:
    """The entries of the visits of some rows."""
    edges = torch.searchsorted(spoken.visit_of_entry, torch.arange(rows.start, rows.stop + 1))
    entries = slice(int(edges[0]), int(edges[-1]))
    speakers = spoken.speaker_of_entry[entries]
    order = torch.argsort(speakers, stable=True)
    starts = torch.searchsorted(speakers[order], torch.arange(spoken.n_speakers))
    return Band(rows, speakers, edges[:-1] - edges[0], spoken.visit_of_entry[entries][order] - rows.start, starts)


class Hearing(NamedTuple):
    """Who is heard in a tile: the first speakers by all of its codes, the next ones by some."""

    n_speakers: int
    n_by_all: int
    by_some: Tensor  # (next speakers, codes)

    def only_heard_(self, table: Tensor) -> Tensor:
        """The rows (n_speakers, codes) of a table of what each says of each, in which the unheard becomes 0."""
        table[self.n_by_all : self.n_speakers].mul_(self.by_some)
        return table[: self.n_speakers]


def hearing_in(spoken: Spoken, tile: Tile) -> Hearing:
    """Who is heard by codes of a tile."""
    left, right = tile.codes.start, tile.codes.stop
    n_by_all = int(torch.searchsorted(spoken.heard_from, left, right=True))
    n_speakers = int(torch.searchsorted(spoken.heard_from, right))
    by_some = torch.arange(left, right) >= spoken.heard_from[n_by_all:n_speakers, None]
    return Hearing(n_speakers, n_by_all, by_some)


class SpokenIn(NamedTuple):
    """What is spoken in one tile."""

    sums: Tensor  # (rows, codes)
    hearing: Hearing
    pairs: slice
    cells: Tensor  # (pairs,) where the pairs stand in the flat table of speakers × codes
    corrections: Window


def spoken_in(spoken: Spoken, band: Band, tile: Tile) -> SpokenIn:
    """The sums of what the codes of each visit of a tile say of the codes of the tile."""
    left, right = tile.codes.start, tile.codes.stop
    pairs = slice(*torch.searchsorted(spoken.code_of_pair, torch.tensor([left, right])).tolist())
    cells = spoken.speaker_of_pair[pairs] * (right - left) + spoken.code_of_pair[pairs] - left
    table = torch.zeros(spoken.n_speakers, right - left, dtype=spoken.values.dtype)
    hearing = hearing_in(spoken, tile)
    for group in spoken.groups:
        of_tile = group.values[:, group.of_code[left:right]]
        table[: hearing.n_speakers] += F.embedding(group.of_speaker[: hearing.n_speakers], of_tile)
    if spoken.groups:
        hearing.only_heard_(table)
    table.view(-1).index_add_(0, cells, spoken.values[pairs])
    sums = F.embedding_bag(band.speakers, table, band.visit_starts, mode="sum")
    corrections = inside(spoken.corrections, tile)
    sums.index_put_(corrections.at, spoken.corrections.values[corrections.lines], accumulate=True)
    return SpokenIn(sums, hearing, pairs, cells, corrections)
