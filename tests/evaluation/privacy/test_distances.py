"""One sparse product against a plain loop over all pairs of patients, for any block size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from adapcla.data import Cohort
from adapcla.evaluation.privacy.distances import aligned_sets, code_sets, nearest, neighbours_within, overlaps

ROWS = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=2, max_size=9)


def _plain(x: np.ndarray, y: np.ndarray, same: bool) -> np.ndarray:
    out = (x[:, None, :] != y[None, :, :]).sum(axis=2).astype(float)
    if same:
        np.fill_diagonal(out, np.inf)
    return out


@given(ROWS, ROWS, st.integers(1, 30), st.booleans())
def test_nearest_is_the_least_of_all_distances(a: list, b: list, block: int, same: bool) -> None:
    x = np.array(a, dtype=np.float32)
    y = x if same else np.array(b, dtype=np.float32)
    plain = _plain(x, y, same)
    found = nearest(sparse.csr_matrix(x), sparse.csr_matrix(y), same=same, block=block)
    assert np.array_equal(found.distance, plain.min(axis=1))
    assert np.array_equal(plain[np.arange(len(x)), found.row], plain.min(axis=1))


@given(ROWS, ROWS, st.integers(0, 4), st.booleans())
def test_neighbours_are_those_within_the_radius_that_share_a_code(a: list, b: list, radius: int, same: bool) -> None:
    x = np.array(a, dtype=np.float32)
    y = x if same else np.array(b, dtype=np.float32)
    expected = ((_plain(x, y, same) <= radius) & (x @ y.T > 0)).sum(axis=1)
    radii = np.full(len(x), radius, dtype=np.float32)
    found = neighbours_within(sparse.csr_matrix(x), sparse.csr_matrix(y), radii, same=same, block=7)
    assert np.array_equal(found, expected)


def test_patients_are_sets_of_codes_or_of_codes_at_their_visit() -> None:
    """{A}{B} and {B}{A} hold the same codes (distance 0) but at other visits (distance 4)."""
    one, other = Cohort.of([[["A"], ["B"]]]), Cohort.of([[["B"], ["A"]]])
    assert nearest(code_sets(one), code_sets(other)).distance.tolist() == [0.0]
    assert nearest(*aligned_sets([one, other])).distance.tolist() == [4.0]


def test_a_single_patient_has_no_other() -> None:
    x = sparse.csr_matrix(np.array([[1.0, 0.0]], dtype=np.float32))
    assert nearest(x, x, same=True).distance.tolist() == [np.inf]


def test_blocks_cover_every_row_once() -> None:
    x = sparse.csr_matrix(np.eye(5, dtype=np.float32))
    assert [(part.rows.start, part.rows.stop) for part in overlaps(x, x, block=10)] == [(0, 2), (2, 4), (4, 5)]
