"""How many codes a visit holds so far, told to each block of a visit that is drawn block by block.

Where no visit holds more than three codes, a fourth must not follow whatever the history says; where visits are never
empty, the last blocks must give what the first did not. Both are a matter of the number alone. The likelihood stays
exact, because the number follows from the codes of the blocks before.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.models.kernels.taken import taken

#: Numbers of codes that are told apart; larger ones are taken as the largest.
MOST_COUNTED = 63
#: Steps of optimisers are small beside the log-odds by which a visit ends; this many times larger they reach them.
_PACE = 24.0


def codes_before(visit_of_entry: Tensor, block_of_entry: Tensor, n_visits: int, n_blocks: int) -> Tensor:
    """(visits, blocks) how many codes of each visit lie in blocks before each block.

    >>> codes_before(torch.tensor([0, 0, 1]), torch.tensor([0, 2, 1]), 2, 3).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    cell = visit_of_entry * n_blocks + block_of_entry
    drawn = torch.bincount(cell, minlength=n_visits * n_blocks).view(n_visits, n_blocks)
    return torch.cumsum(drawn, 1) - drawn


class NumberTables(NamedTuple):
    """What the number of codes so far changes, up to the largest number that is told apart."""

    states: Tensor  # (numbers, hidden)
    shifts: Tensor  # (blocks, numbers, 1)


class Counting(nn.Module):
    """What the number of codes so far changes: the state of the visit, and all logits of a block alike."""

    def __init__(self, n_blocks: int, hidden: int) -> None:
        super().__init__()
        self.state = nn.Parameter(torch.zeros(MOST_COUNTED + 1, hidden))
        # A part that all blocks share is learned from all of them; the other says where in the visit it matters.
        self.anywhere = nn.Parameter(torch.zeros(MOST_COUNTED + 1))
        self.somewhere = nn.Parameter(torch.zeros(MOST_COUNTED + 1, n_blocks))

    def states(self, n_before: Tensor) -> Tensor:
        """(…, hidden) what is added inside the state of a visit that holds so many codes."""
        return F.embedding(n_before.clamp(max=MOST_COUNTED), self.state)

    def tables(self, n_blocks: int) -> NumberTables:
        """What every number of codes changes in every block, for draws that ask for it many times."""
        number = torch.arange(MOST_COUNTED + 1)
        return NumberTables(self.state, self.shifts(number, torch.arange(n_blocks)[:, None])[..., None])

    def shifts(self, n_before: Tensor, blocks: Tensor) -> Tensor:
        """What is added to all logits of blocks, before which visits hold so many codes; shapes are broadcast."""
        number = n_before.clamp(max=MOST_COUNTED)
        cell = number * self.somewhere.shape[1] + blocks
        return _PACE * (taken(self.anywhere, number) + taken(self.somewhere.view(-1), cell))
