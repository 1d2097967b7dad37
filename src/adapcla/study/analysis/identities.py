"""Two identities of the paper as exact numerical checks: the centring of the scaffold, and the shift of priors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from adapcla.data import Prevalence
from adapcla.io.simulator import History, Law
from adapcla.scaffold import Scaffold, shift
from adapcla.scaffold.steering import logit

Array = NDArray[np.float64]


class Centring(NamedTuple):
    """Where the scaffold puts an untrained network."""

    #: Largest |z_0 + b| over the codes seen in training: 0 if the scaffold centres them.
    off_centre: float
    #: Smallest slope of the sigmoid there: ¼, the largest there is, if they are centred.
    sensitivity: float
    #: Largest slope that any other shift of at least `apart` reaches on any code.
    sensitivity_elsewhere: float
    n_codes: int


def sensitivity(logits: Array) -> Array:
    """The slope of the sigmoid: how much a probability moves with its logit, and the curvature of the loss.

    >>> sensitivity(np.array([0.0])).tolist()
    [0.25]
    """
    return expit(logits) * expit(-logits)


def centring(prevalence: Prevalence, apart: float = 0.1, epsilon: float = 1e-6) -> Centring:
    """The check that the untempered scaffold, and no other shift, puts logit π̂ where the sigmoid is steepest.

    >>> centring(Prevalence.of({"A": 0.5, "B": 0.001})).sensitivity
    0.25
    """
    scaffold = Scaffold(prevalence, 1.0, epsilon)
    seen = np.nan_to_num(prevalence.share) > 0
    at = (scaffold.initial_logits + scaffold.bias)[seen]
    elsewhere = np.concatenate([at + apart, at - apart])
    return Centring(
        float(np.abs(at).max()), float(sensitivity(at).min()), float(sensitivity(elsewhere).max()), int(seen.sum())
    )


def prior_shift_gap(source: Law, target: Law, history: History) -> float:
    """The largest error of logit P_T(c | x) − logit P_S(c | x) = Δb(c) in two planted populations.

    Over every history given and every code whose odds move by the same factor everywhere: codes of moved syndromes,
    which move by an amount that depends on the history, are left out, and so are codes that cannot occur.
    """
    before, after = source.next_visit(history), target.next_visit(history)
    possible = (before > 0) & (before < 1) & ~target.moved_members[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.abs(logit(after) - logit(before) - target.code_shift[None, :])
    return float(gap[possible].max())


def bayes_shift_gap(present: Array, absent: Array, source: float, target: float) -> float:
    """The largest error of the shift for one code in a finite world.

    `present` and `absent` are P(x | code) and P(x | no code), the same in both populations; only the prior differs.

    >>> bayes_shift_gap(np.array([0.9, 0.1]), np.array([0.2, 0.8]), 0.01, 0.3) < 1e-12
    True
    """

    def posterior(prior: float) -> Array:
        return prior * present / (prior * present + (1 - prior) * absent)

    delta = shift(Prevalence.of({"C": source}), Prevalence.of({"C": target})).delta[0]
    return float(np.abs(logit(posterior(target)) - logit(posterior(source)) - delta).max())
