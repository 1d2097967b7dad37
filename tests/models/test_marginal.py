"""The floor, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.models.base import DrawRule, Shape
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.models.marginal import MarginalNetwork


def test_likelihood_by_hand(tiny):
    """A in 3 of 5 visits, B 3, C 1, D 1. Visit {A, B}: .6 · .6 · .8 · .8.

    After a first visit 2 of 3 patients go on: log-odds ln(2.5/1.5); after a second 0 of 2: ln(.5/2.5).
    """
    network = MarginalNetwork(Shape(4, 3), tiny.prevalence())
    records = Records(tiny, 3)
    network.count(records)
    likelihood = network.likelihood(records.batch(np.arange(3)))
    first = -np.log(0.6 * 0.6 * 0.8 * 0.8)
    second = -np.log(0.4 * 0.6 * 0.8 * 0.8)
    assert likelihood.codes[0] == pytest.approx(first, abs=1e-4)
    going_on, discharge_code = -np.log(2.5 / 4), -np.log(2.5 / 3)
    assert likelihood.record[0] == pytest.approx(first + going_on + second + discharge_code, abs=1e-4)


def test_draws_are_independent_with_the_prevalence(tiny):
    network = MarginalNetwork(Shape(4, 3), tiny.prevalence())
    noise = Noise(3, np.arange(5000), 0)
    who, codes = network.draw_visit(network.begin(torch.zeros(5000, 0), noise), DrawRule(), noise).drawn
    assert np.allclose(np.bincount(codes) / 5000, [0.6, 0.6, 0.2, 0.2], atol=0.03)
    both = np.bincount(who[codes < 2], minlength=5000) == 2
    assert both.mean() == pytest.approx(0.36, abs=0.03)


def test_nothing_is_trained_or_matched(tiny: Cohort):
    network = MarginalNetwork(Shape(4, 3), tiny.prevalence())
    batch, noise = Records(tiny, 3).batch(np.arange(3)), Noise(1, np.arange(2), 0)
    assert not list(network.parameters())
    with pytest.raises(UsageError, match="not trained"):
        network.loss(batch, None)
    with pytest.raises(UsageError, match="match"):
        network.draw_visit(network.begin(torch.zeros(2, 0), noise), DrawRule(counts=np.array([1])), noise)
