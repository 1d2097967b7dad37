"""The split: by patient, seeded, in the paper's shares; a control part changes neither test nor validation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data.split import split_positions
from adapcla.errors import UsageError

sizes, seeds, controls = st.integers(0, 3000), st.integers(0, 10**9), st.floats(0, 0.69)


@given(sizes, seeds, controls)
def test_every_patient_is_in_exactly_one_part(n, seed, control):
    assert np.sort(np.concatenate(split_positions(n, seed, control))).tolist() == list(range(n))


@given(sizes, seeds, controls)
def test_shares_are_the_papers(n, seed, control):
    """20 % test; 10 % of the remaining 80 % validation; control is a share of everybody."""
    found = split_positions(n, seed, control)
    assert abs(len(found.test) - 0.2 * n) <= 0.5
    assert abs(len(found.valid) - 0.1 * (n - len(found.test))) <= 0.5
    assert abs(len(found.control) - control * n) <= 0.5


@given(sizes, seeds, controls)
def test_a_control_part_is_taken_from_train_alone(n, seed, control):
    plain, controlled = split_positions(n, seed), split_positions(n, seed, control)
    assert plain.test.tolist() == controlled.test.tolist()
    assert plain.valid.tolist() == controlled.valid.tolist()
    assert set(controlled.control.tolist()) <= set(plain.train.tolist())


def test_the_seed_decides():
    assert split_positions(200, seed=4).test.tolist() == split_positions(200, seed=4).test.tolist()
    assert split_positions(200, seed=4).test.tolist() != split_positions(200, seed=5).test.tolist()


def test_no_patient_is_favoured():
    """Over 500 seeds each of 10 patients is in the test part (2 of 10) about 100 times; 5 sigma is 45."""
    times = np.bincount(np.concatenate([split_positions(10, seed).test for seed in range(500)]), minlength=10)
    assert np.abs(times - 100).max() < 45


@pytest.mark.parametrize("control", [-0.1, 0.7, 1.0, float("nan")])
def test_an_impossible_control_share_is_a_wrong_setting(control):
    with pytest.raises(UsageError, match="control"):
        split_positions(100, seed=1, control=control)
