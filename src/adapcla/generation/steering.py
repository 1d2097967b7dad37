"""Steering without training: the shift towards a target prevalence by the paper's rule, and by closed loop.

The paper's rule moves each step's logits; what whole records come to depends on everything after it. The closed loop
samples, measures and corrects, until the population has the requested prevalence. The paper's rule is its
first round.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from adapcla.console import meter
from adapcla.data import Cohort, Prevalence
from adapcla.errors import UsageError
from adapcla.generation.model import Model, quantize_prevalence
from adapcla.generation.sampler import sample
from adapcla.scaffold.steering import Steering, choice_log_odds, choice_shares, logit, measure_gap, shift

#: What a target prevalence may be given as: a file, a cohort folder, a cohort, or a prevalence.
Target = str | Path | Cohort | Prevalence
#: Weight of each round's correction: full steps first, then averaging over the noise of the pilots.
DAMPING = (1.0, 1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25)
#: Patients that each round measures.
PILOT = 20_000
#: Share of the judged codes inside sampling error at which the loop is closed: what chance alone leaves outside.
CLOSED = 0.99


def target_of(target: Target) -> Cohort | Prevalence:
    """The cohort or the prevalence that `target` stands for.

    >>> target_of(Prevalence.of({"A": 0.5})).share.tolist()
    [0.5]
    """
    if isinstance(target, Prevalence | Cohort):
        return target
    path = Path(target)
    if path.is_dir():
        return Cohort.open(path)
    if not path.exists():
        raise UsageError(f"{path}: no such file or cohort folder to steer towards")
    from adapcla.data.prevalence import read_prevalence

    return read_prevalence(path)


def steer(model: Model, toward: Target | Steering, strength: float = 1.0, missing: str = "keep") -> Steering:
    """The paper's shift towards a target prevalence."""
    if not model.traits.steerable:
        raise UsageError(f"{model.method} has no logit for each code, so that it cannot be steered")
    if isinstance(toward, Steering):
        return toward
    return shift(model.prevalence, quantize_prevalence(model, target_of(toward)), strength, missing)


def closed_loop(model: Model, start: Steering, seed: int, pilot: int = PILOT) -> Steering:
    """The steering after damped corrections; it stops once 99 % of the judged codes are inside sampling error."""
    steering = replace(start, target=_aim(model.prevalence, start))
    with meter("calibrate", len(DAMPING)) as bar:
        for number, damping in enumerate(DAMPING):
            synthetic = sample(model, pilot, seed + 7_000_003 * (number + 1), steering)
            prevalence = model.quantize(synthetic).prevalence()
            gap = measure_gap(steering.target, prevalence, synthetic.n_visits)
            bar.advance(
                1, f"mean gap {gap.mae:.5f} (sampling alone {gap.floor:.5f}), inside {gap.inside_sampling_error:.0%}"
            )
            if gap.inside_sampling_error >= CLOSED:
                break
            steering = steering.correct(prevalence, synthetic.n_visits, damping)
    return steering


def _aim(source: Prevalence, start: Steering) -> Prevalence:
    """The prevalence that a strength below 1 asks for: between source and target on the scale of log-odds."""
    if start.strength == 1:
        return start.target
    goal, have = start.target.share.copy(), np.nan_to_num(source.share)
    open_codes = start.target.known & (np.nan_to_num(goal) > 0) & (have > 0) & (have < 1)
    mixed = start.strength * logit(goal[open_codes]) + (1 - start.strength) * logit(have[open_codes])
    goal[open_codes] = 1 / (1 + np.exp(-mixed))
    choices = np.flatnonzero(open_codes & (source.vocabulary.group_of_code >= 0))
    wanted, has = (choice_log_odds(prevalence, choices, open_codes) for prevalence in (start.target, source))
    between = start.strength * wanted + (1 - start.strength) * has
    goal[choices] = choice_shares(source.vocabulary, choices, between)
    return Prevalence(start.target.vocabulary, goal, start.target.n_visits)
