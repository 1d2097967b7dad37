"""A part of the logit for codes that the patient had before; how codes come back is learned once for all codes.

A code that was seen a handful of times has no output row that could learn that it comes back. Whether codes come back
is much the same for many of them, so the part is shared: how strongly depends on the patient's state and on how rare
the code is, and a code may differ from the rest as far as it, or its family, is believed. Only codes that were there
before have it, so that it is computed for those alone and the wide product stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from adapcla.data.ragged import expand_ranges
from adapcla.errors import UsageError
from adapcla.models.batch import Batch
from adapcla.models.layers import CodeTable

#: What is known of a code that was there before: that it was, whether in the last visit, and in what share of visits.
N_FACTS = 3
#: Steps of optimisers are small beside the log-odds that a repeated code gains; this many times larger they reach them.
_PACE = 8.0
#: Numbers gathered at once for logits of single codes.
_CHUNK = 1 << 22


class Had(NamedTuple):
    """Codes that were there before, one line for each of them and each visit or patient that it is asked about."""

    rows: Tensor  # (lines,) the visit or patient
    codes: Tensor  # (lines,)
    facts: Tensor  # (lines, N_FACTS)
    present: Tensor  # (lines,) 1.0 where the visit holds the code


class Pushes(NamedTuple):
    """What is added to the logits of some codes of some visits or patients."""

    rows: Tensor  # (lines,)
    codes: Tensor  # (lines,)
    push: Tensor  # (lines,)
    present: Tensor  # (lines,) 1.0 where the visit holds the code

    def added_to(self, logits: Tensor) -> Tensor:
        """The logits (rows, codes) with the pushes in them."""
        return logits.index_put((self.rows, self.codes), self.push, accumulate=True)

    def and_also(self, other: Pushes) -> Pushes:
        """Both lists, one after the other; where both push one code, their pushes are added."""
        return Pushes(*(torch.cat(both) for both in zip(self, other, strict=True)))

    def change(self, logits: Tensor, positive_weight: float = 1.0) -> Tensor:
        """By how much each line changes the loss of its visit, given its logit without the push (lines,).

        >>> pushes = Pushes(torch.tensor([0]), torch.tensor([0]), torch.tensor([2.0]), torch.tensor([1.0]))
        >>> round(float(F.softplus(torch.tensor(-1.0)) + pushes.change(torch.tensor([1.0]))[0]), 4)  # softplus(−3)
        0.0486
        """
        pushed = logits + self.push
        change = F.softplus(pushed) - F.softplus(logits) - self.present * self.push
        if positive_weight != 1.0:
            extra = F.softplus(-pushed) - F.softplus(-logits)
            change = change + (positive_weight - 1.0) * self.present * extra
        return change


#: What recall adds, or nothing.
Push = Pushes | None


def refuse_push(push: Push) -> None:
    """For heads without room for it."""
    if push is not None:
        raise UsageError("recall=true: expected head=independent or head=blockwise")


class _Occurrences(NamedTuple):
    """The entries of a batch, those of one code of one patient together and in time order."""

    codes: Tensor
    visit: Tensor  # its number in the batch
    number: Tensor  # 1 for the first time, 2 for the second, …
    #: The visit of the next time; where there is none, the one behind the patient's last.
    next_visit: Tensor
    comes_back: Tensor


def _occurrences(batch: Batch) -> _Occurrences:
    """The entries of the batch by patient and code."""
    patient = batch.patient_of_visit[batch.visit_of_entry]
    lengths = torch.bincount(batch.patient_of_visit, minlength=batch.n_patients)
    key = patient * (int(batch.codes.max()) + 1) + batch.codes
    order = torch.argsort(key, stable=True)  # entries come visit by visit
    key, visit, patient = key[order], batch.visit_of_entry[order], patient[order]
    fresh = torch.ones_like(key, dtype=torch.bool)
    fresh[1:] = key[1:] != key[:-1]
    place = torch.arange(len(key))
    number = place - torch.cummax(torch.where(fresh, place, 0), 0).values + 1
    comes_back = torch.cat([~fresh[1:], torch.zeros(1, dtype=torch.bool)])
    end = torch.cumsum(lengths, 0)[patient]
    next_visit = torch.where(comes_back, visit.roll(-1), end)
    return _Occurrences(batch.codes[order], visit, number, next_visit, comes_back)


def _facts(number: Tensor, in_last: Tensor, n_visits: Tensor) -> Tensor:
    """(lines, N_FACTS) from how often a code was there, whether in the last visit, and of how many visits."""
    return torch.stack([torch.ones(len(number)), in_last.float(), number / n_visits], dim=1)


def had_before(batch: Batch) -> Had:
    """What each visit's patient had before it; rows are visits of the batch.

    >>> from adapcla.models.batch import packed
    >>> none = np.zeros((1, 0), dtype=np.int64)
    >>> batch = packed(np.array([4, 7, 4, 9]), np.array([2, 1, 1]), np.array([3]), none, np.zeros(3, dtype=np.int64))
    >>> had = had_before(batch)  # visits {4, 7}, {4}, {9}
    >>> [(r, c, p) for r, c, p in zip(had.rows.tolist(), had.codes.tolist(), had.present.tolist(), strict=True)]
    [(1, 4, 1.0), (2, 4, 0.0), (1, 7, 0.0), (2, 7, 0.0)]
    >>> had.facts[:, 1:].tolist()  # in the last visit; share of visits
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.5]]
    """
    seen = _occurrences(batch)
    # A time is the last one known from the visit after it up to the next time, or to the end of the record.
    end = torch.where(seen.comes_back, seen.next_visit + 1, seen.next_visit)
    times = end - seen.visit - 1
    line = torch.repeat_interleave(torch.arange(len(times)), times)
    since = torch.arange(len(line)) - (torch.cumsum(times, 0) - times)[line] + 1
    rows = seen.visit[line] + since
    facts = _facts(seen.number[line], since == 1, batch.position[rows])
    present = seen.comes_back[line] & (rows == seen.next_visit[line])
    return Had(rows, seen.codes[line], facts, present.float())


def had_in_all(batch: Batch) -> Had:
    """What each patient has had by the end of the record; rows are patients, and nothing is present yet."""
    seen = _occurrences(batch)
    last = ~seen.comes_back
    visit = seen.visit[last]
    patient, behind = batch.patient_of_visit[visit], seen.next_visit[last]
    lengths = torch.bincount(batch.patient_of_visit, minlength=batch.n_patients)
    facts = _facts(seen.number[last], behind == visit + 1, lengths[patient])
    return Had(patient, seen.codes[last], facts, torch.zeros(len(visit)))


class Memory(NamedTuple):
    """What patients that are being drawn have had: sorted by patient, then code."""

    patients: NDArray[np.int64]
    codes: NDArray[np.int64]
    number: NDArray[np.int64]
    in_last: NDArray[np.bool_]
    n_visits: int

    @classmethod
    def empty(cls) -> Memory:
        """Of patients without a visit."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, none.astype(bool), 0)

    def keep(self, rows: NDArray[np.int64]) -> Memory:
        """Of some of the patients, in this order; the same one may be asked for again.

        >>> memory = Memory.empty().after((np.array([0, 1]), np.array([5, 6]))).keep(np.array([1, 1]))
        >>> memory.patients.tolist(), memory.codes.tolist()
        ([0, 1], [6, 6])
        """
        first, stop = (np.searchsorted(self.patients, rows, side=side) for side in ("left", "right"))
        line = expand_ranges(first, stop)
        patients = np.repeat(np.arange(len(rows)), stop - first)
        return Memory(patients, self.codes[line], self.number[line], self.in_last[line], self.n_visits)

    def after(self, drawn: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Memory:
        """With one more visit of each patient.

        >>> once = Memory.empty().after((np.array([0, 0]), np.array([5, 6])))
        >>> twice = once.after((np.array([0]), np.array([6])))
        >>> twice.codes.tolist(), twice.number.tolist(), twice.in_last.tolist()
        ([5, 6], [1, 2], [False, True])
        """
        who, codes = drawn
        wide = 1 + max(self.codes.max(initial=0), codes.max(initial=0))
        new = who * wide + codes
        key, place = np.unique(np.concatenate([self.patients * wide + self.codes, new]), return_inverse=True)
        number = np.bincount(place[: len(self.number)], self.number, minlength=len(key)).astype(np.int64)
        in_last = np.zeros(len(key), dtype=bool)
        in_last[place[len(self.number) :]] = True
        patients, code = np.divmod(key, wide)
        return Memory(patients, code, number + in_last, in_last, self.n_visits + 1)

    def had(self) -> Had:
        """As lines about the next visit; rows are patients."""
        number, in_last = torch.from_numpy(self.number), torch.from_numpy(self.in_last)
        facts = _facts(number, in_last, torch.tensor(max(self.n_visits, 1)))
        absent = torch.zeros(len(number))
        return Had(torch.from_numpy(self.patients), torch.from_numpy(self.codes), facts, absent)


class Recall(nn.Module):
    """How strongly the codes that a patient had before raise their own logits.

    Codes come back about as often whether they are rare or not, so that a rare one must gain more: the strength has a
    part in proportion to the log-odds that the code lacks. A factor of 1 there makes rare and frequent codes alike.
    """

    def __init__(self, width: int, own: CodeTable, log_odds: Tensor) -> None:
        super().__init__()
        self.from_state = nn.Linear(width, 2 * N_FACTS)
        nn.init.zeros_(self.from_state.weight)
        nn.init.zeros_(self.from_state.bias)
        self.own = own
        self.rarity: Tensor
        self.register_buffer("rarity", -log_odds / _PACE)

    def forward(self, states: Tensor, had: Had, state_of_row: Tensor | None = None) -> Pushes:
        """The pushes of lines; their rows are those of `states` (rows, width), or have those of `state_of_row`."""
        at = had.rows if state_of_row is None else state_of_row[had.rows]
        alike, by_rarity = F.embedding(at, self.from_state(states)).split(N_FACTS, dim=1)
        strength = alike + by_rarity * self.rarity[had.codes, None] + F.embedding(had.codes, self.own())
        return Pushes(had.rows, had.codes, _PACE * (had.facts * strength).sum(1), had.present)


def pair_dots(left: Tensor, right: Tensor, of_left: Tensor, of_right: Tensor) -> Tensor:
    """left[of_left] · right[of_right] (pairs,), with gradients; only a bounded part of the gathered rows is held.

    >>> pair_dots(torch.eye(2), torch.tensor([[3.0, 4.0]]), torch.tensor([1, 0]), torch.tensor([0, 0])).tolist()
    [4.0, 3.0]
    """

    def dots(left: Tensor, right: Tensor, of_left: Tensor, of_right: Tensor) -> Tensor:
        return (F.embedding(of_left, left) * F.embedding(of_right, right)).sum(1)

    some = max(1, _CHUNK // left.shape[1])
    if len(of_left) <= some:
        return dots(left, right, of_left, of_right)
    # Rows of a piece are gathered again for its gradient, which is cheaper than holding those of all pieces.
    pieces = [
        checkpoint(dots, left, right, i, j, use_reentrant=False, preserve_rng_state=False)
        for i, j in zip(of_left.split(some), of_right.split(some), strict=True)
    ]
    return torch.cat(pieces)
