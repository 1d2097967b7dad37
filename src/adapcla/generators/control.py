"""Closed-loop control: sample, measure, correct, until the population has the prevalence that was asked for.

The paper's rule moves each step's logits; what whole records come to depends on everything after it. The loop measures
that and mends it. The paper's rule is its first round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from adapcla.console import meter
from adapcla.records import Prevalence
from adapcla.scaffold.steering import Steering, achieved, logit

if TYPE_CHECKING:
    from adapcla.generators.neural import NeuralGenerator

#: Weight of each round's correction: full steps first, then averaging over the noise of the pilots.
DAMPING = (1.0, 1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25)
PILOT = 20_000


def closed_loop(generator: NeuralGenerator, start: Steering, seed: int, pilot: int = PILOT) -> Steering:
    """The steering after damped corrections; stops when nearly every judged code is inside sampling error."""
    steering = replace(start, target=_aim(generator.prevalence_, start))
    with meter("calibrate", len(DAMPING)) as bar:
        for number, damping in enumerate(DAMPING):
            synthetic = generator.sample(pilot, seed=seed + 7_000_003 * (number + 1), toward=steering)
            got = synthetic.prevalence()
            gap = achieved(steering.target, got, synthetic.n_visits)
            bar.advance(1, f"largest gap {gap.max_gap:.4f}, inside {gap.inside_sampling_error:.0%}")
            steering = steering.corrected(got, synthetic.n_visits, damping)
    return steering


def _aim(source: Prevalence, start: Steering) -> Prevalence:
    """The prevalence that a strength below 1 asks for: between source and target on the scale of log-odds."""
    if start.strength == 1:
        return start.target
    goal, have = start.target.share.copy(), np.nan_to_num(source.share)
    open_codes = start.target.known & (np.nan_to_num(goal) > 0) & (have > 0) & (have < 1)
    mixed = start.strength * logit(goal[open_codes]) + (1 - start.strength) * logit(have[open_codes])
    goal[open_codes] = 1 / (1 + np.exp(-mixed))
    return Prevalence(start.target.vocabulary, goal, start.target.n_visits)
