"""What families of codes say of each other: the prior over pairs for codes that never met themselves.

A code of a family speaks of every code of another family by how often the two families met and how often chance would
have them meet. As for pairs of codes, the meetings of the patient at hand are left out while training, and families
that fewer than a number of patients hold together are taken as families that never met.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adapcla.models.batch import Records
from adapcla.models.kernels.group_sums import GroupLines
from adapcla.models.kernels.taken import taken
from adapcla.models.layers import Settling
from adapcla.models.own_lines import KeptLines, OwnLines
from adapcla.models.pair_counts import (
    COUNT_EDGES,
    N_COLUMNS,
    PACE,
    count_band,
    expected_column,
    pair_counts,
    told,
)
from adapcla.models.visit_entries import Entries, Whose, distinct, joined

#: Families up to which a table of all their pairs is made.
MOST_FAMILIES = 1024


def met_band(meetings: Tensor) -> Tensor:
    """The row of the table of belief of each number of meetings, of which there may be none.

    >>> met_band(torch.tensor([0, 1, 2])).tolist()
    [0, 1, 2]
    """
    return torch.where(meetings > 0, count_band(meetings) + 1, 0)


class Kinship(nn.Module, Settling):
    """How far the meetings of families are believed."""

    def __init__(self, family_of_rank: Tensor, least_patients: int) -> None:
        super().__init__()
        self.least_patients, n = least_patients, int(family_of_rank.max()) + 1
        # Row 0 is for families that never met.
        self.belief = nn.Parameter(torch.zeros(len(COUNT_EDGES) + 1, N_COLUMNS))
        self.family: Tensor
        self.cell: Tensor
        self.register_buffer("family", family_of_rank.int())
        self.register_buffer("cell", torch.zeros(n, n, dtype=torch.int32))
        # While training: all meetings, and what changes without each patient; never saved.
        self.own = KeptLines()
        self.known_meetings: Tensor
        self.known_cell: Tensor
        for name in ("known_meetings", "known_cell"):
            self.register_buffer(name, torch.zeros(n, n, dtype=torch.int64), persistent=False)

    @property
    def index_limits(self) -> dict[str, int]:
        """What the entries of saved indices must stay below, by name."""
        return {"cell": self.belief.numel()}

    def observe(self, records: Records, rank_of_code: Tensor) -> None:
        """Count the meetings of families of all training patients."""
        cohort = records.seen
        family, n = self.family.long(), len(self.cell)
        counts = pair_counts(cohort, family[rank_of_code].numpy())
        first, second = torch.from_numpy(counts.first), torch.from_numpy(counts.second)
        meetings, patients = (torch.zeros(n, n, dtype=torch.int64) for _ in range(2))
        for table, numbers in ((meetings, counts.visits), (patients, counts.patients)):
            table[first, second] = table[second, first] = torch.from_numpy(numbers)
        of_family = torch.bincount(family[rank_of_code], torch.from_numpy(cohort.visit_counts), minlength=n)
        each = torch.arange(n)
        column = expected_column(of_family, cohort.n_visits)(each[:, None], each[None])
        self.known_meetings, self.known_cell = meetings, met_band(meetings) * N_COLUMNS + column
        kept = torch.where(patients >= self.least_patients, meetings, 0)
        self.cell = (met_band(kept) * N_COLUMNS + column).int()
        self.own.keep(records, rank_of_code, lambda batch: self.own_lines(Entries.of(batch, len(rank_of_code))))

    def values(self, learning: bool) -> Tensor:
        """(families, families) what a code of each says of the codes of each; while learning, of all meetings."""
        return self._said(self.known_cell if learning else self.cell.long())

    def _said(self, cell: Tensor) -> Tensor:
        return taken(PACE * self.belief.reshape(-1), cell.reshape(-1)).view(cell.shape)

    @torch.no_grad()
    def settled(self) -> dict[str, Tensor]:
        """The bands of families, in which all meetings too few to be told are one."""
        row, column = self.cell // N_COLUMNS, self.cell % N_COLUMNS
        return {"cell": (torch.where(row > 0, told(row - 1) + 1, 0) * N_COLUMNS + column).int()}

    def own_lines(self, entries: Entries) -> OwnLines:
        """Which families would meet otherwise without the visits of the patient, for each entry of one of them."""
        family, n = self.family.long(), len(self.cell)
        of_entry, patient = family[entries.codes], entries.patient_of_visit[entries.visit_of_entry]
        one, other = entries.pairs()
        s, t = of_entry.index_select(0, one), of_entry.index_select(0, other)
        pair = torch.minimum(s, t) * n + torch.maximum(s, t)
        own, times = distinct(patient.index_select(0, one) * n**2 + pair)
        s, t = own // n % n, own % n
        cell, meetings = self.known_cell[s, t], self.known_meetings[s, t]
        left = met_band(meetings - times) * N_COLUMNS + cell % N_COLUMNS
        changed = (left != cell).nonzero()[:, 0]
        own, s, t = (x.index_select(0, changed) for x in (own, s, t))
        change = (cell * self.belief.numel() + left).index_select(0, changed)
        # Both families hear it of each other.
        apart = (s != t).nonzero()[:, 0]
        speaking = torch.cat([own // n, own[apart] // n**2 * n + t[apart]])
        order = torch.argsort(speaking, stable=True)
        whom, change = (torch.cat(both).index_select(0, order) for both in ((t, s[apart]), (change, change[apart])))
        line, which = joined(patient * n + of_entry, speaking.index_select(0, order))
        visits, codes = (x.index_select(0, line) for x in (entries.visit_of_entry, entries.codes))
        return OwnLines(visits, codes, whom.index_select(0, which), change.index_select(0, which))

    def changes(self, kinds: Tensor) -> Tensor:
        """What each kind of change adds."""
        cell, left = kinds // self.belief.numel(), kinds % self.belief.numel()
        return self._said(left) - self._said(cell)

    def without_own(self, entries: Entries, whose: Whose, number: Tensor) -> GroupLines:
        """What must be added so that no patient hears of the meetings in their own visits; `number` of speakers."""
        lines, values = self.own.of(whose, lambda: self.own_lines(entries), self.changes)
        return GroupLines(lines.visits, number.index_select(0, lines.speakers), lines.whom, values).by_speaker()
