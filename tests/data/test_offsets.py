"""Runs of flat arrays, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import ragged
from adapcla.data.ragged import (
    chunks,
    count_values,
    expand_ranges,
    jaccard,
    segment_sums,
    since_segment_start,
    starts_from_sizes,
)


def test_starts_and_ranges_by_hand():
    assert starts_from_sizes(np.array([], dtype=np.int64)).tolist() == [0]
    assert expand_ranges(np.array([3, 7, 7]), np.array([5, 7, 8])).tolist() == [3, 4, 7]


def test_sums_of_no_run_are_none():
    assert segment_sums(np.zeros(0, dtype=np.int64), np.array([0])).tolist() == []
    assert segment_sums(np.zeros((0, 2), dtype=np.uint64), np.array([0])).shape == (0, 2)
    assert segment_sums(np.array([[1, 2], [3, 4], [5, 6]]), np.array([0, 1, 3])).tolist() == [[1, 2], [8, 10]]


def test_values_count_from_the_first_of_their_run():
    assert since_segment_start(np.array([3, 5, 9, 2], dtype=np.int32), np.array([0, 2, 4])).tolist() == [0, 2, 0, -7]
    assert since_segment_start(np.zeros(0, dtype=np.int32), np.array([0])).dtype == np.int32


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_make_the_whole_and_their_counts_add_up(size, monkeypatch):
    monkeypatch.setattr(ragged, "PIECE", size)
    values = np.array([0, 3, 3, 1, 0, 3, 2], dtype=np.int32)
    assert np.concatenate([values[part] for part in chunks(len(values))]).tolist() == values.tolist()
    assert count_values(values, 5).tolist() == [2, 1, 1, 3, 0]
    assert count_values(values[:0], 2).tolist() == [0, 0] and list(chunks(0)) == []


def test_overlap_of_runs_by_hand():
    """Runs {1, 3}, {3, 7}, {1, 3, 7}, {9}: 1 of 3, 2 of 3, all of itself, nothing; no pair at all."""
    values, starts = np.array([1, 3, 3, 7, 1, 3, 7, 9], dtype=np.int32), np.array([0, 2, 4, 7, 8])
    shared = jaccard(values, starts, np.array([0, 0, 2, 3]), np.array([1, 2, 2, 0]))
    assert shared.tolist() == [1 / 3, 2 / 3, 1.0, 0.0]
    assert jaccard(values, starts, np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []
