"""What pushes of codes of choice groups change in the loss of a visit: the whole choice is weighed again."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from adapcla.models.groups import Groups
from adapcla.models.recall import Pushes
from adapcla.models.visit_entries import spread


class GroupPushes(NamedTuple):
    """All codes of every choice of a visit in which some code is pushed, those without a push among them."""

    #: A line for each code; its push may be 0.
    lines: Pushes
    #: (lines,) the number of the choice that each belongs to.
    choice: Tensor
    #: (choices,) the visit, and 1.0 where it holds a code of the group.
    visit: Tensor
    held: Tensor

    def change(self, logits: Tensor, n_visits: int, positive_weight: float = 1.0) -> Tensor:
        """By how much the pushes change the loss of each visit (visits,), given the logits (lines,) without them."""
        before, after = (self._normalisers(z) for z in (logits, logits + self.lines.push))
        weight = 1.0 + (positive_weight - 1.0) * self.held
        out = torch.zeros(n_visits, dtype=logits.dtype).index_add(0, self.visit, weight * (after - before))
        return out.index_add(0, self.lines.rows, -positive_weight * self.lines.present * self.lines.push)

    def _normalisers(self, logits: Tensor) -> Tensor:
        """(choices,) log(1 + Σ exp z)."""
        most = torch.zeros(len(self.visit), dtype=logits.dtype)
        most = most.scatter_reduce(0, self.choice, logits.detach(), "amax")
        sums = torch.exp(-most).index_add(0, self.choice, torch.exp(logits - most[self.choice]))
        return most + sums.log()


def group_pushes(groups: Groups, push: Pushes, visit_of_entry: Tensor, codes: Tensor) -> tuple[GroupPushes, Pushes]:
    """The pushes of choices, with all codes of their groups, and the pushes of codes of their own."""
    unit, stops = groups.unit_of_column(), groups.stops()
    starts = torch.searchsorted(unit, torch.arange(int(unit[-1]) + 1))
    n_units, size = len(starts), stops - starts[unit]
    grouped = torch.zeros(groups.n_columns, dtype=torch.bool)
    for run in groups.runs:
        grouped[run.columns] = True
    mine = grouped[push.codes]
    rest = Pushes(*(part[~mine] for part in push))
    rows, code, values = push.rows[mine], push.codes[mine], push.push[mine]
    cell, choice_of_push = torch.unique(rows * n_units + unit[code], return_inverse=True)
    visit, begin = cell // n_units, starts[cell % n_units]
    choice, member = spread(begin, begin + size[begin])
    first_line = torch.cumsum(size[begin], 0) - size[begin]
    line = first_line[choice_of_push] + code - begin[choice_of_push]
    pushed = torch.zeros(len(member), dtype=values.dtype).index_add(0, line, values)
    entry = visit_of_entry * groups.n_columns + codes
    present = torch.isin(visit[choice] * groups.n_columns + member, entry).to(values.dtype)
    held = torch.zeros(len(cell), dtype=values.dtype).index_add(0, choice, present)
    return GroupPushes(Pushes(visit[choice], member, pushed, present), choice, visit, held), rest
