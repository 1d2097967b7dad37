"""The visit network as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.models.base import DrawRule, Shape
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.models.visit_transformer import VisitArchitecture, VisitNetwork, visit_network


def _network(cohort: Cohort, **changes: object) -> VisitNetwork:
    torch.manual_seed(0)
    architecture = VisitArchitecture(width=16, layers=1, heads=2, context=8, **changes)  # type: ignore[arg-type]
    sizes = tuple(len(a.categories) for _, a in sorted(cohort.attributes.items()))
    shape = Shape(cohort.n_codes, 8, sizes, cohort.days is not None)
    return visit_network(architecture, shape, cohort.prevalence()).eval()


def test_the_untrained_network_starts_at_the_prevalence(tiny: Cohort) -> None:
    """Output bias at logit π̂ and small weights: first-visit probabilities near 3/5, 3/5, 1/5, 1/5."""
    network = _network(tiny)
    n = 4000
    noise = Noise(1, np.arange(n), 0)
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    codes = network.draw_visit(state, DrawRule(), noise).codes
    assert np.bincount(codes, minlength=4) / n == pytest.approx([0.6, 0.6, 0.2, 0.2], abs=0.08)


def test_the_likelihood_of_a_record_is_codes_and_continuing(tiny: Cohort) -> None:
    network = _network(tiny)
    batch = Records(tiny, 8).batch(np.arange(3))
    found = network.likelihood(batch)
    assert found.codes.shape == (5,) and found.record.shape == (3,)
    assert float(found.record.sum()) > float(found.codes.sum())
    loss = float(network.loss(batch, None))
    assert loss == pytest.approx(float(found.record.sum()), rel=1e-5)


def test_a_code_with_a_bias_of_minus_infinity_never_comes(tiny: Cohort) -> None:
    network = _network(tiny)
    n = 500
    bias = torch.tensor([0.0, 0.0, -torch.inf, 0.0])
    noise = Noise(1, np.arange(n), 0)
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    codes = network.draw_visit(state, DrawRule(bias), noise).codes
    counts = np.bincount(codes, minlength=4)
    assert counts[2] == 0 and (counts[[0, 1, 3]] > 0).all()


def test_next_logits_are_those_of_rolling_out(tiny_full: Cohort) -> None:
    """The packed pass over a record and begin/absorb over the same record end at the same logits."""
    network = _network(tiny_full)
    records = Records(tiny_full, 8)
    one = records.batch(np.array([0]))
    logits = network.next_logits(one)[0].detach()  # type: ignore[index]
    noise = Noise(1, np.array([0]), 0)
    state = network.begin(one.start_attributes[one.start_of_patient], noise)
    state = network.absorb(state, (np.array([0, 0]), np.array([0, 1])), np.array([0]))
    state = network.absorb(state, (np.array([0]), np.array([1])), np.array([30]))
    stepped = network.head.logits(state.states)[0].detach()  # type: ignore[attr-defined]
    torch.testing.assert_close(logits, stepped, rtol=1e-4, atol=1e-5)


def test_gaps_are_days_in_the_drawn_bucket(tiny_full: Cohort) -> None:
    network = _network(tiny_full)
    noise = Noise(1, np.arange(50), 64)
    state = network.begin(torch.ones(50, 1, dtype=torch.int64), noise)
    assert network.enter(state, noise, certain=True).gap.tolist() == [0] * 50
    state = network.absorb(state, (np.arange(50), np.zeros(50, dtype=np.int64)), np.zeros(50, dtype=np.int64))
    gaps = network.enter(state, noise, certain=True).gap
    assert gaps.min() >= 0 and gaps.max() <= 2920 and len(np.unique(gaps)) > 5
