"""Neighbour distributions: agreement with scipy, and ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import jensenshannon

from adapcla.evaluation.statistics import Contexts, top_neighbours

counts = arrays(np.int64, (4, 5), elements=st.integers(0, 9))


def contexts(table: np.ndarray) -> Contexts:
    square = np.zeros((5, 5), dtype=np.int64)
    square[: len(table)] = table
    return Contexts.of(sparse.csr_matrix(square))


@given(counts, counts)
def test_divergence_is_the_square_of_scipys_distance(one: np.ndarray, two: np.ndarray):
    """scipy's jensenshannon is the square root of the divergence."""
    found = contexts(one).divergence(contexts(two))
    for row in range(4):
        if one[row].sum() == 0 or two[row].sum() == 0:
            assert np.isnan(found[row])
        else:
            assert found[row] == pytest.approx(jensenshannon(one[row], two[row]) ** 2, abs=1e-12)


@given(counts, st.integers(1, 5))
def test_top_neighbours_are_those_of_a_sort(table: np.ndarray, top: int):
    found = top_neighbours(sparse.csr_matrix(table), top)
    expected = []
    for row in range(4):
        order = sorted(np.flatnonzero(table[row]), key=lambda column: (-table[row, column], column))
        expected += sorted(row * 5 + int(column) for column in order[:top])
    assert found.tolist() == expected


def test_ties_at_the_last_place_go_to_the_smaller_code_string():
    """Counts 5, 2, 2 with room for two: the first and, of the two with 2, the one that sorts first."""
    assert top_neighbours(sparse.csr_matrix([[2, 5, 2]]), top=2).tolist() == [0, 1]


def test_overlap_of_tops_by_hand():
    """{1, 2, 3} and {2, 3, 4} share 2 of 4; a code without neighbours shares nothing."""
    one = contexts(np.array([[0, 1, 1, 1, 0], [0, 0, 0, 0, 0]]))
    two = contexts(np.array([[0, 0, 1, 1, 1], [1, 0, 0, 0, 0]]))
    assert one.shared_top(two)[:2].tolist() == [0.5, 0.0]
