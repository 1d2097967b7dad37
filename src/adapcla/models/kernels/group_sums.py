"""What the codes of visits say of whole groups of codes, summed up once for all codes of a group.

A code speaks to all later blocks. From the first tile on that lies behind its block, all codes of a group hear the same
of it: a sum for each visit and group is kept, which grows from tile to tile, and codes take that of their group. Only
the codes of the tile in which a speaker begins to be heard are gone through one by one. The plain form is
`Spoken.sums`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from adapcla.models.kernels.bce import Tile
from adapcla.models.kernels.members import Members, members
from adapcla.models.visit_entries import spread

#: Runs of codes of one group, up to which each is told at once.
_FEW_RUNS = 8


class GroupLines(NamedTuple):
    """What is added to what single codes of single visits say of whole groups; ascending by speaker."""

    rows: Tensor  # (lines,) the visit
    speakers: Tensor  # (lines,)
    groups: Tensor  # (lines,)
    values: Tensor  # (lines,)

    @classmethod
    def nothing(cls, dtype: torch.dtype = torch.float32) -> GroupLines:
        """No line."""
        none = torch.zeros(0, dtype=torch.int64)
        return cls(none, none, none, torch.zeros(0, dtype=dtype))

    def by_speaker(self) -> GroupLines:
        """The same lines, ascending by speaker."""
        order = torch.argsort(self.speakers, stable=True)
        rows, speakers, groups, values = (x.index_select(0, order) for x in self)
        return GroupLines(rows, speakers, groups, values)


class Window(NamedTuple):
    """Lines of a list that lie in a tile: which they are, and where in the tile."""

    lines: Tensor | slice
    at: tuple[Tensor, Tensor]


class Grouped(NamedTuple):
    """What every speaking code says of every code of later blocks, by the groups that both belong to."""

    of_speaker: Tensor  # (speakers,)
    of_code: Tensor  # (codes,)
    values: Tensor  # (groups of speakers, groups of codes)
    corrections: GroupLines = GroupLines.nothing()
    #: Members of groups in tiles that were asked for before, which may be kept from step to step; None keeps nothing.
    kept: dict[tuple[int, int], Members] | None = None

    def inside(self, codes: slice) -> Members:
        """The members of each group among the codes of a tile.

        >>> groups = Grouped(torch.tensor([0]), torch.tensor([2, 0, 2]), torch.zeros(1, 3), kept={})
        >>> groups.inside(slice(1, 3)) is groups.inside(slice(1, 3)), groups.inside(slice(1, 3)).codes.tolist()
        (True, [0, 1])
        """
        key = (codes.start, codes.stop)
        if self.kept is None or key not in self.kept:
            found = members(self.of_code[codes], self.values.shape[1])
            if self.kept is None:
                return found
            self.kept[key] = found
        return self.kept[key]


class GroupSums:
    """What each group of codes is told in the visits of a band of tiles, and the derivatives by it.

    Speakers join in the order of their blocks. The derivatives by a group are summed up over tiles; a speaker takes the
    sum at the end without that of the tiles before it joined.
    """

    def __init__(self, group: Grouped, rows: slice, entries: tuple[Tensor, Tensor], heard_from: Tensor) -> None:
        """`entries` are the rows of a band and their speakers, ascending by speaker."""
        self.group, lines = group, group.corrections
        self.which = ((lines.rows >= rows.start) & (lines.rows < rows.stop)).nonzero()[:, 0]
        line_rows, self.line_speakers, self.line_groups, self.line_values = (
            x.index_select(0, self.which) for x in lines
        )
        self.line_rows = line_rows - rows.start
        self.line_from = heard_from.index_select(0, self.line_speakers)
        self.entry_rows, self.entry_groups = entries[0], group.of_speaker.index_select(0, entries[1])
        shape, dtype = (rows.stop - rows.start, group.values.shape[1]), group.values.dtype
        self.said, self.slopes = torch.zeros(shape, dtype=dtype), torch.zeros(shape[::-1], dtype=dtype)
        # What is added and left out again must come to nothing: an optimiser makes whole steps of what rounding leaves.
        self.by_values = torch.zeros_like(group.values, dtype=torch.float64)
        self.by_lines = torch.zeros_like(self.line_values)
        self.n_entries = self.n_lines = 0

    def n_lines_of(self, n_speakers: int) -> int:
        """How many lines the first speakers have."""
        return int(torch.searchsorted(self.line_speakers, n_speakers)) if len(self.which) else 0

    def join(self, n_entries: int, n_speakers: int) -> None:
        """From here on all codes hear the first entries and lines, those of the first speakers."""
        n_lines = self.n_lines_of(n_speakers)
        entries, lines = slice(self.n_entries, n_entries), slice(self.n_lines, n_lines)
        said = self.group.values.index_select(0, self.entry_groups[entries])
        self.said.index_add_(0, self.entry_rows[entries], said)
        if n_lines > self.n_lines:
            at = (self.line_rows[lines], self.line_groups[lines])
            self.said.index_put_(at, self.line_values[lines], accumulate=True)
        if self.n_entries:  # as long as nobody has joined, there are no derivatives to be left out
            self._give_back(entries, lines, -1.0)
        self.n_entries, self.n_lines = n_entries, n_lines

    def _give_back(self, entries: slice, lines: slice, times: float) -> None:
        """Add the sums of derivatives so far to those by some entries and lines, so many times."""
        sums = self.slopes.t().contiguous().index_select(0, self.entry_rows[entries])
        self.by_values.index_add_(0, self.entry_groups[entries], sums.double(), alpha=times)
        if lines.stop > lines.start:
            self.by_lines[lines] += times * self.slopes[self.line_groups[lines], self.line_rows[lines]]

    def finish(self, by_values: Tensor, by_lines: Tensor) -> None:
        """After the last tile: add the derivatives by what groups say, and by the lines."""
        self._give_back(slice(0, self.n_entries), slice(0, self.n_lines), 1.0)
        by_values += self.by_values.to(by_values.dtype)
        by_lines[self.which] += self.by_lines

    def tell(self, sums: Tensor, tile: Tile) -> None:
        """Add what the codes of a tile (rows, codes) are told by all who have joined."""
        groups, n_codes = torch.unique_consecutive(self.group.of_code[tile.codes], return_counts=True)
        if len(groups) > _FEW_RUNS:
            sums += self.said.index_select(1, self.group.of_code[tile.codes])
            return
        for group, part in zip(groups.tolist(), sums.split(n_codes.tolist(), dim=1), strict=True):
            part += self.said[:, group, None]

    def take_back(self, by_code: Tensor | None, by_some: Tensor, codes: Members, some: slice) -> None:
        """Add a tile's derivatives by what its codes are told.

        These are (codes, rows) if anybody has joined, and (codes, some) by what some who have not joined say of each.
        """
        if by_code is not None:
            self.slopes += codes.sums(by_code)
        self.by_values.index_add_(0, self.group.of_speaker[some], codes.sums(by_some).t().double())

    def add_lines(self, lines: Window, by_sums: Tensor) -> None:
        """Add the derivatives of lines that were spread over codes of a tile."""
        self.by_lines.index_put_((torch.as_tensor(lines.lines),), by_sums[lines.at], accumulate=True)

    def lines_in(self, tile: Tile, codes: Members, n_speakers: int) -> Window | None:
        """The lines of the next speakers up to some number, who have not joined, spread over codes of later blocks."""
        n_lines = self.n_lines_of(n_speakers)
        if n_lines == self.n_lines:
            return None
        groups = self.line_groups[self.n_lines : n_lines]
        line, place = spread(codes.starts[groups], codes.starts[groups + 1])
        line, code = line + self.n_lines, codes.codes.index_select(0, place)
        heard = (code + tile.codes.start >= self.line_from.index_select(0, line)).nonzero()[:, 0]
        line, code = line.index_select(0, heard), code.index_select(0, heard)
        return Window(line, (self.line_rows.index_select(0, line), code))
