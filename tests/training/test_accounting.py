"""What is spent: equal to Opacus, to a case that can be solved by hand, and never more than was asked for."""

from __future__ import annotations

import importlib.util
import math

import pytest

from adapcla.errors import UsageError
from adapcla.training import privacy as accounting
from adapcla.training.privacy import Account, Spent, account_for, epsilon_of, noise_for, sampling_rate
from adapcla.training.settings import Budget, Privacy

needs_opacus = pytest.mark.skipif(
    importlib.util.find_spec("opacus") is None, reason="opacus is not installed: pip install 'adapcla[dp]'"
)


@needs_opacus
def test_one_gaussian_release_is_what_the_formula_gives() -> None:
    """One step on everybody is the Gaussian mechanism: its Rényi divergence of order a is a / (2 s²).

    Turned into ε at δ = 1e-5: a / (2 s²) + log((a − 1)/a) − (log δ + log a)/(a − 1), at its smallest over the orders.
    With s = 2 the best order is near 6.9, and ε near 2.06.
    """
    from opacus.accountants import RDPAccountant

    s, delta = 2.0, 1e-5
    by_hand = min(
        a / (2 * s * s) + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1)
        for a in RDPAccountant.DEFAULT_ALPHAS
    )
    assert epsilon_of(s, 1.0, 1, delta) == pytest.approx(by_hand, rel=1e-9)
    assert 1.9 < by_hand < 2.2


@needs_opacus
@pytest.mark.parametrize("way", ["rdp", "prv"])
def test_epsilon_is_that_of_opacus(way: accounting.Way) -> None:
    from opacus.accountants import create_accountant

    theirs = create_accountant(mechanism=way)
    for _ in range(30):
        theirs.step(noise_multiplier=1.3, sample_rate=0.2)
    assert epsilon_of(1.3, 0.2, 30, 1e-4, way) == pytest.approx(theirs.get_epsilon(delta=1e-4), rel=1e-9)


@needs_opacus
def test_parts_add_up_to_at_most_what_was_asked_for() -> None:
    budget = Budget(batch_size=50, passes=4)
    account = account_for(Privacy(epsilon=3, delta=1e-4), budget, 200, counts=True)
    assert account.counting is not None
    assert account.counting.epsilon <= 0.6 and 2.95 < account.epsilon <= 3.0
    assert account.delta == pytest.approx(1e-4)
    assert (account.training.rate, account.training.steps) == (0.25, 16)
    statement = account.statement()
    assert statement["epsilon"] >= account.epsilon
    assert statement["epsilon"] == pytest.approx(sum(part["epsilon"] for part in statement["parts"].values()), abs=2e-4)


@needs_opacus
def test_a_public_prior_leaves_everything_to_training() -> None:
    budget = Budget(batch_size=50, passes=4)
    alone = account_for(Privacy(epsilon=3), budget, 200, counts=False)
    shared = account_for(Privacy(epsilon=3), budget, 200, counts=True)
    assert alone.counting is None and alone.delta == 1 / 2000
    assert alone.training.noise < shared.training.noise


@needs_opacus
def test_more_steps_more_noise_and_no_noise_for_the_impossible() -> None:
    assert noise_for(2.0, 1e-5, 0.1, 400) > noise_for(2.0, 1e-5, 0.1, 100)
    with pytest.raises(UsageError, match="no amount of noise keeps"):
        noise_for(1e-6, 1e-12, 1.0, 10)


def test_a_batch_larger_than_the_cohort_takes_everybody() -> None:
    assert sampling_rate(Budget(batch_size=500), 200) == 1.0


def test_without_opacus_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"adapcla\[dp\]"):
        epsilon_of(1.0, 1.0, 1, 1.1e-5)


@needs_opacus
def test_an_account_of_training_alone_has_one_part() -> None:
    account = Account(100, None, Spent(1.0, 0.5, 3, 1e-3))
    assert set(account.statement()["parts"]) == {"training"}
