"""What is added to logits in blocks: to single codes of single visits, and what codes say of codes of later blocks.

What codes say is made dense for one tile at a time, so that pairs cost no memory of visits × codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.models.kernels.bce import Tile
from adapcla.models.kernels.group_sums import Grouped, GroupSums, Window
from adapcla.models.kernels.members import Members

#: Speakers who join their groups at a time: to do so takes as long for one as for many.
_JOIN_TOGETHER = 64


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

    def by_code(self) -> Added:
        """The same lines, ascending by code."""
        order = torch.argsort(self.codes, stable=True)
        rows, codes, values = (x.index_select(0, order) for x in self)
        return Added(rows, codes, values)


class Spoken(NamedTuple):
    """What the codes of a visit say of codes in later blocks, pair by pair and by group.

    The sum over the codes of a visit is multiplied by a strength of the visit and the block that it speaks to.
    """

    speaker_of_pair: Tensor  # (pairs,) the number of a speaking code, or the one after the last for nobody
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

    def tensors(self) -> tuple[Tensor, ...]:
        """All that has gradients."""
        of_groups = (x for group in self.groups for x in (group.values, group.corrections.values))
        return self.values, self.strength, self.corrections.values, *of_groups

    def of(self, tensors: Sequence[Tensor]) -> Spoken:
        """The same with other tensors that have gradients, in the order of `tensors()`."""
        values, strength, corrections, *of_groups = tensors
        groups = tuple(
            group._replace(values=said, corrections=group.corrections._replace(values=corrected))
            for group, said, corrected in zip(self.groups, of_groups[::2], of_groups[1::2], strict=True)
        )
        return self._replace(
            values=values, strength=strength, corrections=self.corrections._replace(values=corrections), groups=groups
        )

    def table(self, n_codes: int) -> Tensor:
        """(speakers, codes) what each says of each, with gradients."""
        heard = torch.arange(n_codes) >= self.heard_from[:, None]
        table = torch.zeros(self.n_speakers + 1, n_codes, dtype=self.values.dtype)
        table = table.index_put((self.speaker_of_pair, self.code_of_pair.long()), self.values)[:-1]
        for group in self.groups:
            table = table + torch.where(heard, group.values[group.of_speaker][:, group.of_code], 0.0)
        return table

    def sums(self, n_visits: int, n_codes: int) -> Tensor:
        """(visits, codes) what is said of each code in each visit, with gradients."""
        said = self.table(n_codes)[self.speaker_of_entry]
        sums = torch.zeros(n_visits, n_codes, dtype=said.dtype).index_add(0, self.visit_of_entry, said)
        sums = sums.index_put((self.corrections.rows, self.corrections.codes), self.corrections.values, True)
        for group in self.groups:
            rows, speakers, groups, values = group.corrections
            heard = torch.arange(n_codes) >= self.heard_from[speakers, None]
            heard &= group.of_code == groups[:, None]
            sums = sums.index_add(0, rows, torch.where(heard, values[:, None], 0.0))
        return sums


def inside(lines: Added, tile: Tile, n_rows: int) -> Window:
    """The lines of a tile, of so many rows in all.

    >>> lines = Added(torch.tensor([4, 0]), torch.tensor([1, 9]), torch.zeros(2))
    >>> tile = Tile(slice(2, 6), slice(0, 5), (torch.zeros(0), torch.zeros(0)))
    >>> inside(lines, tile, 7).lines.tolist(), [at.tolist() for at in inside(lines, tile, 7).at]
    ([0], [[2], [1]])
    """
    low, high = torch.searchsorted(lines.codes, torch.tensor([tile.codes.start, tile.codes.stop])).tolist()
    rows, codes = lines.rows[low:high], lines.codes[low:high] - tile.codes.start
    if tile.rows.stop - tile.rows.start == n_rows:
        return Window(slice(low, high), (rows, codes))
    mine = ((rows >= tile.rows.start) & (rows < tile.rows.stop)).nonzero()[:, 0]
    return Window(low + mine, (rows[mine] - tile.rows.start, codes[mine]))


class Band:
    """The entries of the visits of one band of tiles, by visit and by speaking code."""

    def __init__(self, spoken: Spoken, rows: slice) -> None:
        edges = torch.searchsorted(spoken.visit_of_entry, torch.arange(rows.start, rows.stop + 1))
        entries = slice(int(edges[0]), int(edges[-1]))
        self.rows, self.visit_starts = rows, edges[:-1] - edges[0]
        self.speakers = spoken.speaker_of_entry[entries]  # (entries,) by visit
        order = torch.argsort(self.speakers, stable=True)
        ascending = self.speakers[order]
        self.rows_by_speaker = spoken.visit_of_entry[entries][order] - rows.start  # (entries,)
        #: (speakers + 1,) where the entries of each speaker begin, and where the last ones end.
        self.speaker_starts = torch.searchsorted(ascending, torch.arange(spoken.n_speakers + 1))
        by_speaker = (self.rows_by_speaker, ascending)
        self.groups = [GroupSums(group, rows, by_speaker, spoken.heard_from) for group in spoken.groups]
        self.n_joined = 0

    def join(self, n_speakers: int) -> None:
        """From here on all codes hear the first speakers; a few who are new wait for others."""
        if n_speakers - self.n_joined < _JOIN_TOGETHER:
            return
        for group in self.groups:
            group.join(int(self.speaker_starts[n_speakers]), n_speakers)
        self.n_joined = n_speakers


class Hearing(NamedTuple):
    """Who is heard in a tile: the first speakers through their groups alone, the next ones by some of its codes."""

    n_speakers: int
    n_joined: int
    heard: Tensor  # (next speakers, codes)

    @property
    def some(self) -> slice:
        """The next speakers."""
        return slice(self.n_joined, self.n_speakers)


def hearing_in(spoken: Spoken, band: Band, tile: Tile) -> Hearing:
    """Who is heard by codes of a tile; those whom all hear join their groups."""
    left, right = tile.codes.start, tile.codes.stop
    n_by_all, n_speakers = torch.searchsorted(spoken.heard_from, torch.tensor([left + 1, right])).tolist()
    band.join(n_by_all)
    heard = torch.arange(left, right) >= spoken.heard_from[band.n_joined : n_speakers, None]
    return Hearing(n_speakers, band.n_joined, heard)


class SpokenIn(NamedTuple):
    """What is spoken in one tile."""

    sums: Tensor  # (rows, codes)
    hearing: Hearing
    pairs: slice
    cells: Tensor  # (pairs,) where the pairs stand in the flat table of speakers × codes
    corrections: Window
    groups: list[tuple[Members, Window | None]]  # for each kind of groups its codes, and its lines spread over them


def spoken_in(spoken: Spoken, band: Band, tile: Tile) -> SpokenIn:
    """The sums of what the codes of each visit of a tile say of the codes of the tile; tiles from left to right."""
    left, right = tile.codes.start, tile.codes.stop
    ends = torch.tensor([left, right], dtype=spoken.code_of_pair.dtype)
    pairs = slice(*torch.searchsorted(spoken.code_of_pair, ends).tolist())
    hearing = hearing_in(spoken, band, tile)
    # All who are not heard share a last row, in which there is nothing in the end.
    cells = spoken.speaker_of_pair[pairs].clamp(max=hearing.n_speakers) * (right - left)
    cells += spoken.code_of_pair[pairs] - left
    table = torch.zeros(hearing.n_speakers + 1, right - left, dtype=spoken.values.dtype)
    for group in spoken.groups:
        of_tile = group.values.index_select(1, group.of_code[tile.codes])
        table[hearing.some] += F.embedding(group.of_speaker[hearing.some], of_tile)
    table[hearing.some].mul_(hearing.heard)
    table.view(-1).scatter_add_(0, cells, spoken.values[pairs])
    table[-1] = 0.0
    speakers = band.speakers.clamp(max=hearing.n_speakers)
    sums = F.embedding_bag(speakers, table, band.visit_starts, mode="sum")
    corrections = inside(spoken.corrections, tile, len(spoken.strength))
    sums.index_put_(corrections.at, spoken.corrections.values[corrections.lines], accumulate=True)
    groups = []
    for told in band.groups:
        if band.n_joined:
            told.tell(sums, tile)
        codes = told.group.inside(tile.codes)
        lines = told.lines_in(tile, codes, hearing.n_speakers)
        if lines is not None:
            sums.index_put_(lines.at, told.line_values[lines.lines], accumulate=True)
        groups.append((codes, lines))
    return SpokenIn(sums, hearing, pairs, cells, corrections, groups)


class SpokenSlopes(NamedTuple):
    """Derivatives of the summed loss by what is spoken."""

    values: Tensor  # (pairs,)
    strength: Tensor  # (visits, blocks)
    corrections: Tensor  # (lines,)
    groups: list[tuple[Tensor, Tensor]]  # by the values and by the corrections of each kind of groups

    @classmethod
    def nothing(cls, spoken: Spoken) -> SpokenSlopes:
        """Before the first tile."""
        zeros = torch.zeros_like
        groups = [(zeros(group.values), zeros(group.corrections.values)) for group in spoken.groups]
        return cls(zeros(spoken.values), zeros(spoken.strength), zeros(spoken.corrections.values), groups)

    def tensors(self) -> tuple[Tensor, ...]:
        """The derivatives in the order of `Spoken.tensors()`."""
        return self.values, self.strength, self.corrections, *(x for group in self.groups for x in group)


def add_slopes(slopes: SpokenSlopes, band: Band, company: SpokenIn, by_sums: Tensor) -> None:
    """Add the derivatives of a tile, of which those by its sums are known; not those by the strength."""
    slopes.corrections[company.corrections.lines] = by_sums[company.corrections.at]
    n_speakers, some = company.hearing.n_speakers, company.hearing.some
    by_code = by_sums.t().contiguous() if band.n_joined and band.groups else None
    entries = band.rows_by_speaker[: int(band.speaker_starts[n_speakers])]
    # The last row is of nobody.
    said = F.embedding_bag(entries, by_sums, band.speaker_starts[: n_speakers + 1], mode="sum")
    slopes.values[company.pairs] += said.view(-1).index_select(0, company.cells)
    if not band.groups:
        return
    by_some = said[some].mul_(company.hearing.heard).t().contiguous()
    for told, (codes, lines) in zip(band.groups, company.groups, strict=True):
        told.take_back(by_code, by_some, codes, some)
        if lines is not None:
            told.add_lines(lines, by_sums)


def finish_slopes(slopes: SpokenSlopes, bands: list[Band]) -> None:
    """Add the derivatives that bands of tiles have kept."""
    for band in bands:
        for told, (by_values, by_lines) in zip(band.groups, slopes.groups, strict=True):
            told.finish(by_values, by_lines)
