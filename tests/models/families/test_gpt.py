"""The token stream network: sums to one, never repeats, draws what it says."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.models.batch import Records
from adapcla.models.contract import DrawRule, Shape
from adapcla.models.draws import Noise
from adapcla.models.families.gpt import GptArchitecture, GptNetwork


def made(cohort: Cohort, shape: Shape, **changes) -> GptNetwork:
    torch.manual_seed(4)
    settings = GptArchitecture(width=16, layers=1, heads=2, context=12, **changes)
    return GptNetwork(settings, shape, cohort.prevalence()).eval()


def every_visit(letters: str) -> list[tuple[str, ...]]:
    return [some for size in range(1, len(letters) + 1) for some in combinations(letters, size)]


def test_all_first_visits_together_are_certain():
    """Three codes have seven visits; each is a patient, and exp(−nll) of their codes sums to 1."""
    visits = every_visit("ABC")
    cohort = Cohort.of([[list(visit)] for visit in visits])
    network = made(cohort, Shape(3, 12))
    likelihood = network.likelihood(Records(cohort, 12).batch(np.arange(len(visits))))
    assert float(torch.exp(-likelihood.codes).sum()) == pytest.approx(1.0, abs=1e-5)


def test_drawn_first_visits_have_the_frequencies_of_the_law():
    """χ² of 6,000 drawn visits against their likelihoods, shifted and tempered alike."""
    visits = every_visit("ABC")
    cohort = Cohort.of([[list(visit)] for visit in visits])
    network = made(cohort, Shape(3, 12))
    shift = torch.tensor([0.5, 0.0, -0.5])
    likelihood = network.likelihood(Records(cohort, 12).batch(np.arange(len(visits))), shift)
    n = 6000
    noise = Noise(8, np.arange(n), 0)
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    who, codes = network.draw_visit(state, DrawRule(shift), noise)
    number = np.bincount(who, weights=2.0**codes, minlength=n).astype(int)
    key = [sum(2 ** "ABC".index(letter) for letter in visit) for visit in visits]
    seen = np.bincount(number, minlength=8)[key]
    chance = torch.exp(-likelihood.codes).numpy()
    assert stats.chisquare(seen, chance / chance.sum() * n).pvalue > 1e-3


@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_no_code_comes_twice_in_a_visit(order, world, shape, starts):
    network = made(world, shape, order=order)
    attributes, noise = starts(30)
    with torch.no_grad():
        network.bias[-2] = -4.0  # long visits
    who, codes = network.draw_visit(network.begin(attributes, noise), DrawRule(), noise)
    assert len(np.unique(who * world.n_codes + codes)) == len(codes) > 100
    assert np.array_equal(np.unique(who), np.arange(30))


@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_rolling_out_knows_what_training_knows(order, world, shape, after_first_visit):
    """Going on after a first visit: the rolled state's chance is that of the packed pass."""
    network, n = made(world, shape, order=order), 10
    state = after_first_visit(network, n)
    batch = Records(world, 1).batch(np.arange(n))
    network.shuffled = False  # both in the order of frequency
    stream = network._stream(batch)
    with torch.no_grad():
        states = network._states(batch, stream)
    assert torch.allclose(states[stream.last_row], state.last, atol=1e-5)


def test_loss_is_the_sum_of_the_likelihoods(world, shape, records):
    network = made(world, shape)
    batch = records.batch(np.arange(30))
    assert float(network.loss(batch, None)) == pytest.approx(float(network.likelihood(batch).record.sum()), rel=1e-5)


def test_long_visits_are_closed_and_matching_is_refused(world, shape, starts):
    network = made(world, shape, longest_visit=3)
    with torch.no_grad():
        network.bias[-2] = -30.0
    attributes, noise = starts(20)
    state = network.begin(attributes, noise)
    who, _ = network.draw_visit(state, DrawRule(), noise)
    assert np.bincount(who).max() == 3
    with pytest.raises(UsageError, match="token by token"):
        network.draw_visit(state, DrawRule(counts=np.array([2])), noise)
