"""What is read off the nearest synthetic patient: distances against a plain loop, codes and values by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from adapcla.data import Cohort, Vocabulary
from adapcla.data.vocabulary import Code
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy import LIMITS
from adapcla.evaluation.privacy.nearest import (
    adversarial_accuracy,
    aligned_sets,
    code_sets,
    median_accuracy,
    nearest,
    overlaps,
    rarest_code,
    read_off,
    residual,
    without,
)
from adapcla.seeds import random_stream

VOCABULARY = Vocabulary.of([f"C{number:03d}" for number in range(300)])
ROWS = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=2, max_size=9)


def _rows(*rows: list[int]) -> sparse.csr_matrix:
    return sparse.csr_matrix(np.array(rows, dtype=np.float32))


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


# ---- a code
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
    score = METRICS["attribute_residual"].compute(Comparison.of(members, controls, members, control=controls))[ALL]
    assert score.value == pytest.approx(1.0)


# ---- a value
def measured(values: list[float], vocabulary: Vocabulary, turn: int = 0) -> Cohort:
    """Patients of one visit with two codes of their own and a lab value."""
    n = len(values)
    own = (np.arange(n) // 2 + turn) % 100
    codes = np.stack([own, np.full(n, len(vocabulary) - 1)], axis=1).ravel().astype(np.int32)
    numbers = np.stack([np.full(n, np.nan), np.array(values)], axis=1).ravel().astype(np.float32)
    return Cohort(vocabulary, codes, np.arange(n + 1) * 2, np.arange(n + 1), values=numbers)


def test_values_of_members_are_read_off_their_copies_and_those_of_controls_are_not() -> None:
    random = random_stream(1, "values")
    vocabulary = Vocabulary((*(Code.of(f"C{k:03d}") for k in range(100)), Code.of("LAB", domain="lab", unit="mg/dL")))
    train, control, fresh = (measured(random.normal(size=200).tolist(), vocabulary, turn) for turn in range(3))
    made = measured(np.asarray(train.values)[1::2].tolist(), vocabulary)
    leak = METRICS["value_attack"].compute(Comparison.of(train, control, made, control))[ALL]
    fine = METRICS["value_attack"].compute(Comparison.of(train, control, fresh, control))[ALL]
    assert leak.value > 0.3 and fine.low < 0 < fine.high and fine.high < 0.2
    bare = train.without_values()
    assert (
        METRICS["value_attack"]
        .compute(Comparison.of(bare, bare, bare.subset([0]), bare))[ALL]
        .reason.startswith("concerns nobody")
    )
    # Where only the controls lack values, the attack cannot be made, and that is no reason to let it pass.
    lacking = METRICS["value_attack"].compute(Comparison.of(train, control.without_values(), made, control))[ALL]
    assert lacking.value is None and not lacking.reason.startswith("concerns nobody")


# ---- distance tests of the field
def test_members_nearer_than_the_median_are_found() -> None:
    """Median 2: members 1, 2 and controls 2, 9. Below it one member; so 1 + 2 of 4 right."""
    assert median_accuracy(np.array([1.0, 2.0]), np.array([2.0, 9.0])) == 0.75


def test_equal_distances_are_chance() -> None:
    assert median_accuracy(np.ones(4), np.ones(4)) == 0.5


def test_adversarial_accuracy_of_copies_and_of_strangers() -> None:
    """Copies lie at 0 from each other, below any other neighbour: 0. Two far clusters: each has its own: 1."""
    near, far = _rows([1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]), _rows([0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1])
    assert adversarial_accuracy(near, near) == 0.0
    assert adversarial_accuracy(near, far) == 1.0


def test_copies_of_members_show_in_both() -> None:
    """Members on codes of their own, copied; controls share two of their three codes with the next control."""
    members = Cohort.of([[[VOCABULARY.tokens[k + i] for i in range(3)]] for k in range(60)], VOCABULARY)
    controls = Cohort.of([[[VOCABULARY.tokens[k + i] for i in range(3)]] for k in range(200, 260)], VOCABULARY)
    comparison = Comparison.of(members, controls, members, control=controls)
    assert METRICS["halo_membership_accuracy"].compute(comparison)[ALL].value == 1.0
    assert METRICS["nnaa_privacy_loss"].compute(comparison)[ALL].value == pytest.approx(1.0)


def test_neither_is_in_the_gate() -> None:
    assert not {"halo_membership_accuracy", "nnaa_privacy_loss"} & {limit.key for limit in LIMITS}
