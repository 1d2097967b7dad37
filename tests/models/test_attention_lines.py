"""Records on lines: every row lies somewhere, and sees exactly its own record up to itself."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from adapcla.models.batch import SHARED, attention_lines

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=60)


@given(lengths=LENGTHS, n_starts=st.integers(1, 3))
def test_a_row_sees_its_own_record_up_to_itself_and_nothing_else(lengths: list[int], n_starts: int) -> None:
    """By hand: row j of record p sees the start of p and rows 0 … j of p."""
    start = np.arange(len(lengths)) % n_starts
    n_used = min(n_starts, len(lengths))
    found = attention_lines(np.array(lengths), start, n_used)
    rows = torch.cat([lines.rows.reshape(-1) for lines in found.lines])
    row, seen_at = n_used, {}
    begin = 0
    for lines in found.lines:
        n, slots = lines.rows.shape
        mask = torch.zeros(n, slots, slots).masked_fill(torch.ones(slots, slots).triu(1).bool(), -torch.inf)
        for line, slot in np.ndindex(n, slots):
            sees = (mask if lines.mask is None else lines.mask[:, 0])[line, slot] == 0
            assert sees.any()  # or the weights of padding would be 0 / 0
            seen_at[begin + line * slots + slot] = lines.rows[line][sees].tolist()
        begin += n * slots
    for patient, length in enumerate(lengths):
        for step in range(length):
            slot = int(found.slot_of_row[row])
            assert rows[slot] == row
            assert seen_at[slot] == [int(start[patient]), *range(row - step, row + 1)]
            row += 1
    for number in range(n_used):
        slot = int(found.slot_of_row[number])
        assert rows[slot] == number
        assert seen_at[slot] == [number]


def test_short_records_share_lines() -> None:
    """Sixteen records of three visits take four slots each: four lines of sixteen, without a gap."""
    found = attention_lines(np.full(16, 3), np.zeros(16, np.int64), 1)
    assert [tuple(lines.rows.shape) for lines in found.lines] == [(4, SHARED)]


def test_a_very_long_record_costs_the_short_ones_nothing() -> None:
    """2,000 visits have a line of 2,001 slots and no mask; the two short records stay on a line of sixteen."""
    found = attention_lines(np.array([2, 2000, 5]), np.zeros(3, np.int64), 1)
    assert [(tuple(lines.rows.shape), lines.mask is None) for lines in found.lines] == [
        ((1, SHARED), False),
        ((1, 2001), True),
    ]


def test_records_of_nearly_one_length_are_padded_by_a_quarter_at_most() -> None:
    lengths = np.arange(20, 400)
    found = attention_lines(lengths, np.zeros(len(lengths), np.int64), 1)
    assert len(found.lines) < 16
    slots = sum(lines.rows.numel() for lines in found.lines)
    assert slots <= 1.26 * (lengths + 1).sum()
