"""Base rates and return rates that bring a structure to its target prevalences and number of visits.

Mean-field: codes are followed as averages from visit to visit. The law that results is exact whatever the balance;
only how near its prevalences come to their targets rests on the approximation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.io.simulator.names import Layout
from adapcla.io.simulator.structure import GROUP_SHARE, Structure

MOST_VISITS = 20
#: Chance of another visit after the first, second, … for an average visit; the last value holds from there on.
_RETURN = np.array([0.33, 0.48, 0.58, 0.65, 0.70])
_ROUNDS, _FOLLOWED = 12, 10
#: The part of its target that every code brings by itself, at least.
_LEAST = 0.05


class Balance(NamedTuple):
    """Mean base hazard of each event, and the log-odds of another visit after visit 1, 2, … for no code."""

    hazard: NDArray[np.float64]
    return_log_odds: NDArray[np.float64]


def balanced(world: Structure, layout: Layout) -> Balance:
    """Rates under which the average visit comes near the targets."""
    n_codes = len(layout.vocabulary)
    target = layout.target
    own = np.full(n_codes, 0.8)
    own[world.emissions.target] = 0.4
    own[world.emissions.target[world.is_rare]] = _LEAST
    hazard = np.concatenate([target * own, world.syndrome_rate])
    rates = np.append(_RETURN, np.full(MOST_VISITS - 1 - len(_RETURN), _RETURN[-1]))
    alive = np.cumprod(np.append(1.0, rates[: _FOLLOWED - 1]))
    weight = alive / alive.sum()
    rare = np.flatnonzero(world.is_rare)
    home, member = world.emissions.source[rare], world.emissions.target[rare]
    members = np.bincount(home, minlength=world.n_syndromes)
    mean = _mean_visits(world, hazard, n_codes)
    for _ in range(_ROUNDS):
        share = np.tensordot(weight, mean, 1)
        ratio = np.divide(target, share, out=np.ones(n_codes), where=share > 0)
        # A code that its syndromes and forerunners give too often keeps a small rate of its own.
        moved = hazard[:n_codes] * np.clip(ratio, 0.5, 2.0) ** 1.2
        hazard[:n_codes] = np.maximum(moved, _LEAST * target)
        # A syndrome gives at most the planned part of its rare members, and less where they persist or relapse.
        usual = np.bincount(home, np.log(ratio[member]), minlength=world.n_syndromes) / members
        hazard[n_codes:] = np.minimum(hazard[n_codes:] * np.exp(np.clip(usual, -0.7, 0.7)), world.syndrome_rate)
        mean = _mean_visits(world, hazard, n_codes)
    usual = mean @ world.return_weight
    usual = np.append(usual, np.full(MOST_VISITS - 1 - len(usual), usual[-1]))
    return Balance(hazard, np.log(rates / (1 - rates)) - usual)


def _mean_visits(world: Structure, hazard: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Mean share of each code at the first visits, one row per visit."""
    base = hazard[None, :] * world.group_factor  # (G, V + S)
    links, shown = world.progressions, world.emissions
    n_events = base.shape[1]
    onward = sparse.csr_matrix((links.chance, (links.target, links.source)), shape=(n_events, n_codes))
    gather = sparse.csr_matrix((np.ones(len(shown.target)), (shown.target, np.arange(len(shown.target)))),
                               shape=(n_codes, len(shown.target)))  # fmt: skip
    share = np.zeros((len(base), n_codes))
    ever = np.zeros_like(share)
    out = []
    for _ in range(_FOLLOWED):
        total = base + (onward @ share.T).T
        active = -np.expm1(-total[:, n_codes:])
        missed = np.log1p(-active[:, shown.source] * shown.chance)
        absent = np.exp(-total[:, :n_codes] + (gather @ missed.T).T)
        share = 1 - absent * (1 - world.persistence * ever)
        ever = 1 - (1 - ever) * absent
        out.append(GROUP_SHARE @ share)
    return np.stack(out)
