"""The state encoder, the generator and what judges it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from adapcla.errors import UsageError
from adapcla.models.base import DrawRule
from adapcla.models.batch import Records
from adapcla.models.synteg import FAMILY, SyntegArchitecture, SyntegNetwork


def made(cohort, shape, **changes) -> SyntegNetwork:
    torch.manual_seed(4)
    settings = SyntegArchitecture(width=16, layers=1, heads=2, context=12, condition=8, noise=6, **changes)
    return SyntegNetwork(settings, shape, cohort.prevalence()).eval()


def test_a_visit_is_the_same_set_in_any_order(world, shape):
    network = made(world, shape)
    table = network.table()
    where, zero = torch.tensor([0, 3]), torch.zeros(2, dtype=torch.int64)
    one = network.embedding.visits(table, torch.tensor([4, 7, 9, 1, 2]), where, zero, zero)
    two = network.embedding.visits(table, torch.tensor([9, 4, 7, 2, 1]), where, zero, zero)
    assert torch.allclose(one, two, atol=1e-5)


def test_rolling_out_knows_what_training_knows(world, shape, after_first_visit):
    network = made(world, shape)
    state = after_first_visit(network, 10)
    batch = Records(world, 1).batch(np.arange(10))
    with torch.no_grad():
        states = network.states(batch)[batch.n_starts :]
    assert torch.allclose(states, state.states, atol=1e-5)


def test_the_discrepancy_is_smaller_for_the_law_than_for_another(world, shape, records):
    """A generator set to draw what is frequent is nearer to real visits than one that draws what is rare."""
    network = made(world, shape)
    batch = replace(records, order=network.order).batch(np.arange(150))
    right = network.discrepancy(batch)
    with torch.no_grad():
        network.generator[-1].bias.copy_(network.generator[-1].bias.flip(0))
    assert right < 0.5 * network.discrepancy(batch)


def test_made_visits_follow_their_noise_and_state(world, shape, starts):
    network = made(world, shape)
    attributes, noise = starts(12)
    state = network.begin(attributes, noise)
    who, codes = network.draw_visit(state, DrawRule(), noise).drawn
    some = np.array([5, 3])
    few_who, few_codes = network.draw_visit(network.select(state, some), DrawRule(), noise.keep(some)).drawn
    for position, patient in enumerate(some):
        assert np.array_equal(codes[who == patient], few_codes[few_who == position])


def test_it_says_what_it_cannot_do(world, shape, records, starts):
    network = made(world, shape)
    attributes, noise = starts(3)
    assert not FAMILY.traits.steerable and not FAMILY.traits.likelihood
    with pytest.raises(UsageError, match="no likelihood"):
        network.likelihood(records.batch(np.arange(3)))
    with pytest.raises(UsageError, match="neither steered"):
        network.draw_visit(network.begin(attributes, noise), DrawRule(bias=torch.zeros(world.n_codes)), noise)
    with pytest.raises(UsageError, match="not sampled from"):
        network.head.draw(torch.zeros(1, 8), None, DrawRule(), noise)
