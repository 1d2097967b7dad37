"""The codes of some visits as a list, and the pairs that stand in one visit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from adapcla.models.batch import Batch, Origin


class Entries(NamedTuple):
    """The codes of some visits, visit by visit and ascending."""

    visit_of_entry: Tensor  # (entries,)
    codes: Tensor  # (entries,)
    patient_of_visit: Tensor  # (visits,)

    @classmethod
    def of(cls, batch: Batch, n_codes: int) -> Entries:
        """Those of a batch."""
        order = torch.argsort(batch.visit_of_entry * n_codes + batch.codes)
        return cls(batch.visit_of_entry[order], batch.codes[order], batch.patient_of_visit)

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Both entries of all pairs of two codes of a visit, the smaller code first.

        >>> entries = Entries(torch.tensor([0, 0, 1]), torch.tensor([4, 7, 4]), torch.tensor([0, 0]))
        >>> [side.tolist() for side in entries.pairs()]
        [[0], [1]]
        """
        end = torch.cumsum(torch.bincount(self.visit_of_entry), 0)[self.visit_of_entry]
        return spread(torch.arange(len(end)) + 1, end)


class Whose(NamedTuple):
    """Whose the visits of some rows are, in training."""

    patient_of_row: Tensor  # (rows,)
    row_of_visit: Tensor | None  # (visits,) where each visit stands, patient by patient; None if that is the order
    first_visits: Tensor  # (patients,) the first visit of each
    origin: Origin | None  # where the patients come from, if that is known


def spread(begin: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """For each line the numbers from its begin to its end: the line, and the number.

    >>> [side.tolist() for side in spread(torch.tensor([0, 5]), torch.tensor([2, 6]))]
    [[0, 0, 1], [0, 1, 5]]
    """
    many = end - begin
    line = torch.repeat_interleave(torch.arange(len(many)), many)
    # `index_select` takes rows as an index would, several times as fast.
    return line, torch.arange(len(line)) + (begin - torch.cumsum(many, 0) + many).index_select(0, line)


def joined(asked: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Which of the asked and which of the keys, that ascend, are equal: a line for each such pair.

    >>> [side.tolist() for side in joined(torch.tensor([3, 1]), torch.tensor([1, 1, 2]))]
    [[1, 1], [0, 1]]
    """
    return spread(*(torch.searchsorted(keys, asked, right=right) for right in (False, True)))


def distinct(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The different keys, ascending, and how often each is there: as `torch.unique`, in less time.

    >>> [side.tolist() for side in distinct(torch.tensor([7, 3, 7]))]
    [[3, 7], [1, 2]]
    >>> [side.tolist() for side in distinct(torch.zeros(0, dtype=torch.int64))]
    [[], []]
    """
    found, times = torch.unique_consecutive(torch.sort(keys).values, return_counts=True)
    return found, times
