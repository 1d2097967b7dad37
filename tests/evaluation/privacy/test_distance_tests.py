"""The field's distance tests, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from adapcla.data import Cohort, Vocabulary
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.distance_tests import adversarial_accuracy, median_accuracy
from adapcla.evaluation.privacy.gate import LIMITS

VOCABULARY = Vocabulary.of([f"C{number:03d}" for number in range(300)])


def _rows(*rows: list[int]) -> sparse.csr_matrix:
    return sparse.csr_matrix(np.array(rows, dtype=np.float32))


def test_members_nearer_than_the_median_are_told() -> None:
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
