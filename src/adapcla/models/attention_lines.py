"""Packs records into lines of equal length for attention: many short records share one line.

Attention over each record by itself is thousands of tiny products. Short records share lines of equal length, with a
mask that keeps them apart; a longer one has a line for itself, among others of nearly its length, padded at the end.
Neither changes a state: a row gives no weight to what it may not see, and no row before the padding can see it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data.ragged import expand_ranges, starts_from_sizes

#: Slots of a line that several records share.
SHARED = 16
#: Longer records lie together with those that are at most so many times as long.
_RATIO = 1.25


class Lines(NamedTuple):
    """Lines of one length."""

    rows: Tensor  # (lines, slots) the state row that lies there; padding repeats row 0
    mask: Tensor | None  # (lines, 1, slots, slots) 0 where a slot sees another, −∞ elsewhere; None: all before it


class AttentionLines(NamedTuple):
    """Where every row of a batch lies."""

    lines: tuple[Lines, ...]
    slot_of_row: Tensor  # (rows,) a slot of each row, counted through all lines; one of several for start rows


def attention_lines(lengths: NDArray[np.int64], start_of_patient: NDArray[np.int64], n_starts: int) -> AttentionLines:
    """Lines for records of these lengths, each a start row and then its own rows, which follow each other by patient.

    >>> found = attention_lines(np.array([2, 1]), np.array([0, 0]), 1)
    >>> found.lines[0].rows[0, :6].tolist()  # start, rows 1 and 2, then start and row 3, then padding
    [0, 1, 2, 0, 3, 0]
    >>> found.slot_of_row.tolist()
    [3, 1, 2, 4]
    """
    first = n_starts + starts_from_sizes(lengths)[:-1]
    slot_of_row = np.zeros(n_starts + int(lengths.sum()), dtype=np.int64)
    lines, begin = [], 0
    tier = np.ceil(np.log(np.maximum(lengths + 1, SHARED) / SHARED) / np.log(_RATIO) - 1e-9).astype(np.int64)
    for number in np.unique(tier):
        members = np.flatnonzero(tier == number)
        sizes = lengths[members] + 1
        slots = SHARED if number == 0 else int(sizes.max())
        line, at = _shared(sizes, slots) if number == 0 else (np.arange(len(sizes)), np.zeros(len(sizes), np.int64))
        n_lines = int(line.max()) + 1
        here = expand_ranges(line * slots + at, line * slots + at + sizes)
        rows, owner = np.zeros(n_lines * slots, dtype=np.int64), np.full(n_lines * slots, -1, dtype=np.int64)
        own = expand_ranges(first[members] - 1, first[members] - 1 + sizes)
        own[starts_from_sizes(sizes)[:-1]] = start_of_patient[members]
        rows[here], owner[here] = own, np.repeat(members, sizes)
        slot_of_row[own] = begin + here
        mask = _mask(owner.reshape(n_lines, slots)) if number == 0 else None
        lines.append(Lines(torch.as_tensor(rows.reshape(n_lines, slots)), mask))
        begin += n_lines * slots
    return AttentionLines(tuple(lines), torch.as_tensor(slot_of_row))


def _shared(sizes: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The line of each record and the slot where it begins: the largest first, each where it fits most tightly."""
    line, at = np.empty(len(sizes), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    with_room: list[list[int]] = [[] for _ in range(slots + 1)]
    n_lines = 0
    for record in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[record])
        room = next((room for room in range(size, slots + 1) if with_room[room]), slots)
        if not with_room[room]:
            with_room[room].append(n_lines)
            n_lines += 1
        line[record], at[record] = with_room[room].pop(), slots - room
        with_room[room - size].append(int(line[record]))
    return line, at


def _mask(owner: NDArray[np.int64]) -> Tensor:
    """What each slot sees: its own record up to itself; padding sees padding, so that no row of weights is empty."""
    slots = owner.shape[1]
    sees = (owner[:, :, None] == owner[:, None, :]) & np.tril(np.ones((slots, slots), dtype=bool))
    return torch.as_tensor(np.where(sees, np.float32(0), np.float32(-np.inf))[:, None])
