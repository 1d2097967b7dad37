"""Steps and rates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.training.settings import Budget


@given(n_steps=st.integers(2, 5000), warmup=st.floats(0, 0.5))
def test_the_rate_rises_then_falls_and_stays_in_bounds(n_steps: int, warmup: float) -> None:
    budget = Budget(learning_rate=1.0, warmup=warmup, final_rate=0.1)
    rates = [budget.rate(step, n_steps) for step in range(n_steps)]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(rates) <= 1.0
    assert rates[-1] == pytest.approx(0.1, abs=0.02) or n_steps < 10


def test_a_fraction_of_a_pass_is_a_fraction_of_its_steps() -> None:
    assert Budget(passes=0.5, batch_size=10).steps(100) == 5
    assert Budget(passes=0.001, batch_size=10).steps(100) == 1
