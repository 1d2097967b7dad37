"""Choice groups in a row of logits: codes of which a visit holds at most one are drawn as one category, or none.

Networks keep the codes of a group side by side. None has the logit 0, so that a group's part of the negative
log-likelihood is log(1 + Σ exp z) over its codes, less the logit of the code that is there. A code of its own is a
group of one: log(1 + exp z). Whatever is added to logits is therefore added to log-odds, for codes of both kinds.

Groups of equal size that lie side by side are a *run*, and are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from adapcla.errors import AdapclaError
from adapcla.models.draws import Noise

#: The random numbers of groups, one for each group; code draws begin with channel 8.
_CHANNEL = 4


class Run(NamedTuple):
    """Groups of equal size, side by side."""

    start: int
    n_groups: int
    size: int
    #: The number of the first of them among all groups.
    number: int

    @property
    def stop(self) -> int:
        """The column behind the last of them."""
        return self.start + self.n_groups * self.size

    @property
    def columns(self) -> slice:
        """Their columns."""
        return slice(self.start, self.stop)

    def group_of(self, column: int) -> slice:
        """The columns of the group that one of its columns belongs to.

        >>> Run(4, 2, 3, 0).group_of(8)
        slice(7, 10, None)
        """
        start = column - (column - self.start) % self.size
        return slice(start, start + self.size)

    def of(self, logits: Tensor) -> Tensor:
        """A view (rows, groups, size) of their columns of some logits (rows, columns)."""
        return logits[:, self.columns].unflatten(1, (self.n_groups, self.size))


class Groups(NamedTuple):
    """The choice groups among some columns, in order; all other columns are codes of their own."""

    runs: tuple[Run, ...]
    n_columns: int

    @classmethod
    def of(cls, group_of_column: NDArray[np.int32]) -> Groups | None:
        """The groups of columns by number, −1 for a code of its own; None where there is none.

        >>> Groups.of(np.array([3, 3, -1, -1, 0, 0, 1, 1])).runs
        (Run(start=0, n_groups=1, size=2, number=0), Run(start=4, n_groups=2, size=2, number=1))
        """
        edges = np.flatnonzero(np.diff(group_of_column, prepend=-2, append=-2))
        runs: list[Run] = []
        number = 0
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if group_of_column[start] < 0:
                continue
            last = runs[-1] if runs else None
            if last is not None and last.stop == start and last.size == stop - start:
                runs[-1] = last._replace(n_groups=last.n_groups + 1)
            else:
                runs.append(Run(start, 1, stop - start, number))
            number += 1
        return cls(tuple(runs), len(group_of_column)) if runs else None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return sum(run.n_groups for run in self.runs)

    def plain(self) -> Iterator[slice]:
        """The stretches of columns that are codes of their own.

        >>> list(Groups((Run(1, 1, 2, 0),), 5).plain())
        [slice(0, 1, None), slice(3, 5, None)]
        """
        begin = 0
        for run in (*self.runs, Run(self.n_columns, 0, 0, 0)):
            if run.start > begin:
                yield slice(begin, run.start)
            begin = run.stop

    def run_of(self, column: int) -> Run | None:
        """The run that a column belongs to; None for a code of its own."""
        return next((run for run in self.runs if run.start <= column < run.stop), None)

    def inside(self, columns: slice) -> Groups | None:
        """The groups of some columns, which cut none, counted from the first of them.

        >>> Groups((Run(2, 3, 2, 0),), 9).inside(slice(4, 9)).runs
        (Run(start=0, n_groups=2, size=2, number=1),)
        """
        kept = []
        for run in self.runs:
            low, high = max(run.start, columns.start), min(run.stop, columns.stop)
            if low < high:
                before = (low - run.start) // run.size
                kept.append(Run(low - columns.start, (high - low) // run.size, run.size, run.number + before))
        return Groups(tuple(kept), columns.stop - columns.start) if kept else None

    def uncut(self, edge: int) -> int:
        """The column at which to cut instead of one inside a group: where the group begins.

        >>> Groups((Run(2, 3, 2, 0),), 9).uncut(5)
        4
        """
        for run in self.runs:
            if run.start < edge < run.stop:
                return edge - (edge - run.start) % run.size
        return edge

    def unit_of_column(self) -> Tensor:
        """(columns,) the number of the group or code of its own that each column belongs to, in order of columns."""
        first = torch.ones(self.n_columns, dtype=torch.int64)
        for run in self.runs:
            run.of(first[None])[:, :, 1:] = 0
        return torch.cumsum(first, 0) - 1

    def stops(self) -> Tensor:
        """(columns,) the column behind the group of each column, or behind the column itself.

        >>> Groups((Run(1, 1, 2, 0),), 4).stops().tolist()
        [1, 3, 3, 4]
        """
        unit = self.unit_of_column()
        return torch.searchsorted(unit, unit, right=True)

    def normalisers(self, logits: Tensor) -> Tensor:
        """(rows, units) the logarithm of 1 + Σ exp z of each group and each code of its own; with gradients.

        >>> sums = Groups((Run(1, 1, 2, 0),), 3).normalisers(torch.zeros(1, 3))
        >>> [round(x, 4) for x in sums[0].exp().tolist()]
        [2.0, 3.0]
        """
        parts = {stretch.start: F.softplus(logits[:, stretch]) for stretch in self.plain()}
        for run in self.runs:
            parts[run.start] = torch.logsumexp(F.pad(run.of(logits), (0, 1)), dim=2)
        return torch.cat([parts[start] for start in sorted(parts)], dim=1)

    def chances(self, logits: Tensor) -> Tensor:
        """(rows, columns) the chance that each code is there."""
        return torch.exp(logits - self.normalisers(logits)[:, self.unit_of_column()])

    def draw(
        self, logits: Tensor, uniform: NDArray[np.float64], row_of_patient: Tensor | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(patient, column) pairs of one choice of each group, which may be none; `uniform` is (patients, all groups).

        Patient i uses row `row_of_patient[i]` of the logits, or row i if None.
        """
        rows, columns = [], []
        for run in self.runs:
            steps = torch.cumsum(choice_chances(run.of(logits).double()), dim=2).numpy()
            if not np.isfinite(steps).all():
                raise AdapclaError("the network gave probabilities that are not finite; load another checkpoint")
            steps = steps if row_of_patient is None else steps[row_of_patient.numpy()]
            mine = uniform[:, run.number : run.number + run.n_groups, None]
            choice = (mine > steps).sum(axis=2)
            who, which = np.nonzero(choice < run.size)
            rows.append(who)
            columns.append(run.start + which * run.size + choice[who, which])
        return np.concatenate(rows), np.concatenate(columns)


def choice_chances(logits: Tensor) -> Tensor:
    """The chances of choices (…, size) beside none, whose logit is 0.

    >>> choice_chances(torch.zeros(1, 3)).tolist()
    [[0.25, 0.25, 0.25]]
    """
    return torch.softmax(F.pad(logits, (0, 1)), dim=-1)[..., :-1]


def choices_(logits: Tensor) -> Tensor:
    """log(1 + Σ exp z) of choices (…, size), without gradients; the logits become chances in place.

    >>> logits = torch.zeros(1, 3)
    >>> round(float(choices_(logits).exp()), 4), logits.tolist()
    (4.0, [[0.25, 0.25, 0.25]])
    """
    most = logits.amax(dim=-1, keepdim=True).clamp_(min=0)
    logits.sub_(most).exp_()
    total = logits.sum(dim=-1, keepdim=True) + torch.exp(-most)
    logits.div_(total)
    return (most + total.log())[..., 0]


def group_noise(groups: Groups, noise: Noise) -> NDArray[np.float64]:
    """(patients, groups) the random numbers of one visit's choices."""
    return noise.uniform(groups.n_groups, channel=_CHANNEL)
