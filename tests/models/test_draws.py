"""Draws are exact, keyed, and refuse numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.errors import AdapclaError
from adapcla.models.draws import Noise, bernoulli, bernoulli_codes, categorical, counter


def _noise(n: int, key: int = 3, place: int = 0) -> Noise:
    return Noise(key, np.arange(n), place)


def test_frequencies_are_the_probabilities() -> None:
    """20,000 draws from five logits: every count within the binomial's central 99.99 %."""
    logits = torch.tensor([[-4.0, -1.0, 0.0, 2.0, -7.0]])
    n = 20_000
    _, codes = bernoulli_codes(logits, torch.zeros(n, dtype=torch.int64), _noise(n), channel=0)
    counts = np.bincount(codes, minlength=5)
    for count, p in zip(counts, torch.sigmoid(logits[0].double()).tolist(), strict=True):
        low, high = stats.binom.interval(0.9999, n, p)
        assert low <= count <= high


def test_codes_are_independent_of_each_other() -> None:
    logits = torch.tensor([[0.0, 0.0]])
    n = 20_000
    who, codes = bernoulli_codes(logits, torch.zeros(n, dtype=torch.int64), _noise(n), channel=0)
    table = np.zeros((n, 2), dtype=bool)
    table[who, codes] = True
    both = int((table[:, 0] & table[:, 1]).sum())
    low, high = stats.binom.interval(0.9999, n, 0.25)
    assert low <= both <= high


def test_a_patient_is_the_same_alone_or_in_company() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 40) - 1
    who, codes = bernoulli_codes(logits, None, _noise(6), channel=0)
    for patient in range(6):
        noise = _noise(6).keep(np.array([patient]))
        alone = bernoulli_codes(logits[patient : patient + 1], None, noise, channel=0)
        assert alone[1].tolist() == codes[who == patient].tolist()


def test_shared_rows_give_the_same_draws_as_their_copies() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 30)
    rows = torch.tensor([0, 1, 1, 0])
    shared = bernoulli_codes(logits, rows, _noise(4), channel=5)
    copied = bernoulli_codes(logits[rows], None, _noise(4), channel=5)
    assert shared[0].tolist() == copied[0].tolist() and shared[1].tolist() == copied[1].tolist()


def test_minus_infinity_never_comes_out() -> None:
    logits = torch.tensor([[-torch.inf, 3.0, -torch.inf]])
    _, codes = bernoulli_codes(logits, torch.zeros(500, dtype=torch.int64), _noise(500), channel=0)
    assert set(codes.tolist()) == {1}


def test_dense_visits_use_as_many_arrivals_as_they_need() -> None:
    logits = torch.full((3, 400), 3.0)
    who, _ = bernoulli_codes(logits, None, _noise(3), channel=0)
    assert (np.bincount(who) > 350).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(AdapclaError, match="not finite"):
        bernoulli_codes(torch.tensor([[0.0, bad]]), None, _noise(1), channel=0)
    with pytest.raises(AdapclaError, match="not finite"):
        categorical(torch.tensor([[0.0, bad]]), _noise(1), channel=0)
    if bad != bad:
        with pytest.raises(AdapclaError, match="not finite"):
            bernoulli(torch.tensor([bad]), _noise(1), channel=0)


def test_categories_come_at_their_rates() -> None:
    n = 10_000
    drawn = categorical(torch.log(torch.tensor([[0.2, 0.5, 0.3]])).expand(n, 3), _noise(n), channel=1)
    assert stats.chisquare(np.bincount(drawn, minlength=3), n * np.array([0.2, 0.5, 0.3])).pvalue > 1e-4


def test_a_logit_beyond_all_measure_is_a_certain_code_and_not_an_endless_loop() -> None:
    """Of logits 10^30 and −30 the first always comes out, the second never in three draws."""
    who, codes = bernoulli_codes(torch.tensor([[1e30, -30.0]] * 3), None, _noise(3), channel=0)
    assert who.tolist() == [0, 1, 2] and codes.tolist() == [0, 0, 0]


def test_a_network_that_makes_every_code_certain_is_called_damaged() -> None:
    with pytest.raises(AdapclaError, match="certain"):
        bernoulli_codes(torch.full((1, 3_000), 1e30), None, _noise(1), channel=0)


def test_no_two_draws_of_a_patient_share_their_numbers() -> None:
    """60 draws of each visit, the longest in 6,250 parts (a hundred thousand codes): all counters differ."""
    asked = [*range(8), *(8 + 64 * part for part in range(6250))]
    places = [visit * 64 + number for visit in (0, 1, 47) for number in (0, 1, 59)]
    seen = [counter(place, channel) for place in places for channel in asked]
    seen += [counter(0, channel, attempt) for attempt in (1, 2, 1999) for channel in asked]
    assert len(set(seen)) == len(seen) == (3 * 3 + 3) * (8 + 6250)
    assert all(counter(5, 8 + 64 * part) == 5 * 65536 + 8 + 64 * part for part in range(9))
