"""Reading a hidden code off the nearest synthetic patients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from adapcla.data import Cohort, Vocabulary
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.privacy.attributes import attribute_residual, rarest_code, read_off, residual, without

VOCABULARY = Vocabulary.of([f"C{number:03d}" for number in range(300)])


def _rows(*rows: list[int]) -> sparse.csr_matrix:
    return sparse.csr_matrix(np.array(rows, dtype=np.float32))


def test_the_code_with_fewest_holders_is_hidden() -> None:
    """Holders 9, 2, 2: the first patient hides its only rare code, the second the one with the smaller key."""
    x = _rows([1, 1, 0], [0, 1, 1])
    assert rarest_code(x, np.array([9, 2, 2]), np.array([0, 8, 3], dtype=np.uint64)).tolist() == [1, 2]
    assert without(x, np.array([1, 2])).toarray().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_equally_near_patients_share_the_guess() -> None:
    """Known {A}; {A, B} and {A, C} are equally near, one of them holds the hidden B: ½. {B} shares nothing."""
    made = _rows([1, 1, 0], [1, 0, 1], [0, 1, 0])
    assert read_off(_rows([1, 0, 0]), np.array([1]), made).tolist() == [0.5]


def test_nothing_known_in_common_counts_as_not_read() -> None:
    assert read_off(_rows([1, 0, 0]), np.array([1]), _rows([0, 1, 1])).tolist() == [0.0]


@given(st.integers(1, 20))
def test_blocks_do_not_matter(block: int) -> None:
    x = sparse.random(8, 6, density=0.5, random_state=1, format="csr", dtype=np.float32)
    x.data[:] = 1
    hidden = np.arange(8) % 6
    assert np.array_equal(read_off(x, hidden, x, block=block), read_off(x, hidden, x))


def test_residual_by_hand() -> None:
    """r_D = ¾, r_H = ½: half of what was unknown is known. Variances 3/16 and 1/4 over 4, slopes 2 and −1.

    Error: √(4 · 3/64 + 1 · 1/16) = ½.
    """
    score = residual(np.array([1.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert score.value == 0.5
    assert score.low == pytest.approx(0.5 - 1.96 * 0.5, abs=1e-3)


def test_nothing_left_to_learn_is_null() -> None:
    assert residual(np.ones(3), np.ones(3)).value is None


def test_copied_members_are_read_and_controls_are_not() -> None:
    """Each patient holds one code that all share and two of his own; members are copied, so all are read."""
    members, controls = (
        Cohort.of([[["C299", *VOCABULARY.tokens[k : k + 2]]] for k in range(a, a + 120, 2)], VOCABULARY)
        for a in (0, 120)
    )
    score = attribute_residual(Comparison.of(members, controls, members, control=controls))[ALL]
    assert score.value == pytest.approx(1.0)
