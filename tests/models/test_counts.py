"""Visits of a given number of codes are drawn from the exact conditional law."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.errors import AdapclaError
from adapcla.models import independent_head
from adapcla.models.base import DrawRule
from adapcla.models.draws import Noise, bernoulli_codes
from adapcla.models.independent_head import codes_given_number, independent_codes, with_expected_count

LOGITS = torch.tensor([[-3.0, -0.5, 0.0, 1.0, 2.5, -1.0]])


@pytest.mark.parametrize("number", [1, 2, 4])
def test_sets_come_at_the_rates_of_the_conditional_law(number: int) -> None:
    """Six codes, all sets of one size: each has the product of its odds, and χ² holds the draws against that."""
    n = 12_000
    who, codes = codes_given_number(LOGITS.expand(n, -1), np.full(n, number), Noise(5, np.arange(n), 0))
    assert (np.bincount(who, minlength=n) == number).all()
    sets = [sum(1 << c for c in some) for some in itertools.combinations(range(6), number)]
    odds = np.array(
        [float(torch.exp(LOGITS[0, list(some)].sum())) for some in itertools.combinations(range(6), number)]
    )
    drawn = np.bincount(who, weights=2.0**codes, minlength=n).astype(int)
    seen = np.array([(drawn == one).sum() for one in sets])
    assert seen.sum() == n
    assert stats.chisquare(seen, odds / odds.sum() * n).pvalue > 1e-3
    assert stats.chisquare(seen, np.roll(odds, 1) / odds.sum() * n).pvalue < 1e-6  # the test can fail


def test_the_number_is_drawn_from_the_counts_and_never_missed() -> None:
    n = 3000
    rule = DrawRule(counts=np.array([2, 2, 2, 5]))
    rows = torch.zeros(n, dtype=torch.int64)
    who = independent_codes(LOGITS, rows, rule, Noise(7, np.arange(n), 3)).who
    sizes = np.bincount(who, minlength=n)
    assert set(sizes.tolist()) == {2, 5}
    assert stats.binomtest(int((sizes == 2).sum()), n, 0.75).pvalue > 1e-3


def test_without_counts_codes_come_as_they_always_did() -> None:
    noise = Noise(7, np.arange(50), 3)
    rows = torch.zeros(50, dtype=torch.int64)
    plain = bernoulli_codes(LOGITS, rows, noise, channel=8)
    drawn = independent_codes(LOGITS, rows, DrawRule(), noise).drawn
    assert all((a == b).all() for a, b in zip(drawn, plain, strict=True))


def test_a_patient_is_the_same_alone_or_in_company() -> None:
    torch.manual_seed(1)
    logits, number, noise = torch.randn(8, 30) - 2, np.arange(1, 9), Noise(3, np.arange(8), 2)
    who, codes = codes_given_number(logits, number, noise)
    some = np.array([6, 1])
    few_who, few_codes = codes_given_number(logits[some], number[some], noise.keep(some))
    for position, patient in enumerate(some):
        assert codes[who == patient].tolist() == few_codes[few_who == position].tolist()


def test_codes_that_never_come_out_are_not_counted_on() -> None:
    """Of three codes one is removed: a visit of three codes can hold two."""
    logits = torch.tensor([[0.0, -torch.inf, 1.0]])
    who, codes = codes_given_number(logits, np.array([3]), Noise(1, np.arange(1), 0))
    assert who.tolist() == [0, 0] and codes.tolist() == [0, 2]


def test_a_number_that_never_comes_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent_head, "_ATTEMPTS", 1)
    with pytest.raises(AdapclaError, match="did not come out"):
        codes_given_number(torch.zeros(50, 20), np.full(50, 10), Noise(1, np.arange(50), 0))


def test_the_expected_number_is_as_wanted() -> None:
    wanted = torch.tensor([0.5, 3.0, 5.5])
    shifted = with_expected_count(LOGITS.expand(3, -1), wanted)
    torch.testing.assert_close(torch.sigmoid(shifted).sum(1), wanted, atol=1e-3, rtol=0)
