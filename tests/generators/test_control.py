"""Closed-loop control comes nearer to the target than the rule it starts from."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.generators import NeuralGenerator
from adapcla.generators.control import _aim, closed_loop
from adapcla.records import Prevalence
from adapcla.scaffold.steering import achieved, shift


def test_the_loop_closes_the_gap(plain: NeuralGenerator) -> None:
    """A small, barely trained model far from its own prevalence: the loop still reaches the target."""
    base = plain.prevalence_
    goal = np.clip(base.share * np.where(np.arange(len(base.share)) % 2, 1.6, 0.6), 0, 0.9)
    start = plain.steer(Prevalence(base.vocabulary, goal))
    loop = closed_loop(plain, start, seed=1, pilot=1500)
    before = plain.sample(1500, seed=9, toward=start)
    after = plain.sample(1500, seed=9, toward=loop)
    paper = achieved(start.target, before.prevalence(), before.n_visits)
    closed = achieved(loop.target, after.prevalence(), after.n_visits)
    assert closed.inside_sampling_error >= max(0.9, paper.inside_sampling_error)
    assert closed.mae < paper.mae


def test_half_strength_aims_half_way_in_log_odds() -> None:
    """From 0.2 to 0.8 the log-odds run from −1.386 to 1.386: half way is 0.5."""
    source, target = Prevalence.of({"A": 0.2}), Prevalence.of({"A": 0.8})
    assert _aim(source, shift(source, target, strength=0.5)).share.tolist() == pytest.approx([0.5])
