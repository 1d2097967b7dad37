"""How strongly codes are raised in proposals: what a few pilots promise.

Any shift gives the same law (see `conditional`); it decides how many proposals it takes. One that is too small seldom
fulfils the condition; one that is too large puts the asked codes where they do not belong, and the weights say so.
Where visits hold about so many codes, the asked one often comes when the visit is full already. So it is also tried to
make room for it: to make all other codes a little less likely in visits in which it may come.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import AdapclaError
from adapcla.generation.proposals import Judge, Proposed, Proposer
from adapcla.generation.sampler import BLOCK
from adapcla.scaffold.steering import logit
from adapcla.seeds import stream_key

#: Share of proposals that should meet each clause when shifts are looked for, and how near is near enough. Where it is
#: nearly certain that a code comes, a record in which it did not at first weighs more than thousands of others.
_GOAL, _NEAR = 0.25, (0.1, 0.45)
#: Pilots for each way of making room.
_ROUNDS = 5
#: What is added to the log-odds of all other codes, each tried.
_ROOM = (0.0, -0.25, -0.5)
#: Smaller shifts that are tried afterwards: with them fewer proposals fulfil the condition, but weights vary less.
_SMALLER = (1.5, 3.0)
#: Share of the condition's probability that a pilot must have seen.
_SEEN = 0.5
#: The largest shift: a code of that log-odds is certain.
_LARGEST_SHIFT = 40.0


def weight_bound(weight: NDArray[np.float64], share: float, mass: NDArray[np.float64] | None = None) -> float:
    """The smallest bound above which the weights hold no more than this share of their sum; with 0, the largest.

    With `mass`, records were not proposed as the weights say, and stand for so much of the law each.

    >>> weight_bound(np.array([1.0, 1.0, 4.0]), share=0.5), weight_bound(np.array([1.0, 4.0]), share=0.0)
    (1.0, 4.0)
    >>> weight_bound(np.array([1.0, 4.0]), share=0.5, mass=np.array([2.0, 4.0]))
    1.0
    """
    if not len(weight):
        return 0.0
    mass = weight if mass is None else mass
    order = np.argsort(-weight)
    falling, held = weight[order], mass[order]
    # With the k largest above the bound, that is where their mass less what the bound takes is the share of the whole.
    bounds = (np.cumsum(held) - share * held.sum()) / np.cumsum(held / falling)
    fits = bounds >= np.r_[falling[1:], 0.0]
    return float(bounds[int(np.argmax(fits))])


class AnyProposer(Protocol):
    """Whoever makes proposals for one condition; proposals of a seed and number are always the same."""

    @property
    def steered(self) -> bool:
        """Whether proposals are drawn otherwise than by the model, so that they have weights."""

    @property
    def described(self) -> dict[str, Any]:
        """How proposals are drawn, for the card."""

    def block(self, seed: int, low: int, judge: Judge | None = None) -> Proposed:
        """Proposals low … low + BLOCK − 1 of a seed; those that are judged hopeless need not be drawn to their end."""


class Chosen(NamedTuple):
    """A proposer that pilots have chosen."""

    proposer: AnyProposer
    #: Visits that pilots took, and the condition's probability.
    n_visits: int
    probability: float
    #: The bound that its weights will have, where pilots tell.
    bound: float = 0.0


class _Tried(NamedTuple):
    """A proposer, what its pilot promised and what it says of the condition."""

    #: Patients that are taken for each visit that is computed.
    promise: float
    probability: float
    proposer: Proposer


class _Pilots:
    """Pilots of one condition, and what they cost."""

    def __init__(self, plain: Proposer, seed: int, beyond: float) -> None:
        self.plain, self.seed, self.beyond = plain, seed, beyond
        self.n_visits = 0
        self.tried: list[_Tried] = []

    def ask(self, shifts: NDArray[np.float64], room: float) -> Proposed:
        """A block of proposals with these shifts."""
        raised = tuple(float(shift) for shift in np.clip(shifts, 0.01, _LARGEST_SHIFT))
        proposer = self.plain.shifted(raised, room)
        part = proposer.block(stream_key(self.seed, "pilot", len(self.tried) + 1), 0)
        self.n_visits += part.n_visits
        # Few weights have not shown their largest ones yet.
        bound = weight_bound(part.weight, self.beyond) * (1 + 4 / np.sqrt(max(len(part.weight), 1)))
        promise = float(part.weight.sum() / (bound * part.n_visits)) if bound else 0.0
        self.tried.append(_Tried(promise, float(part.weight.sum()) / part.n if promise else 0.0, proposer))
        return part

    def look_for_shifts(self, room: float) -> None:
        """Ask until about as many proposals as should meet each clause."""
        shifts = _first_guess(self.plain)
        for _ in range(_ROUNDS):
            met = self.ask(shifts, room).met
            if ((met >= _NEAR[0]) & (met <= _NEAR[1])).all():
                break
            step = logit(np.array([_GOAL])) - logit((met * BLOCK + 0.5) / (BLOCK + 1))
            shifts = np.clip(shifts + np.clip(step, -6, 6), 0.01, _LARGEST_SHIFT)

    @property
    def best(self) -> _Tried:
        """What promised most, of those that saw as much of the law as the ones that leave other codes alone.

        Where other codes are kept away altogether, all that comes out weighs the same, and most of the law is unseen.
        """
        plainly = [one.probability for one in self.tried if one.promise and not one.proposer.raised.room]
        least = _SEEN * float(np.median(plainly)) if plainly else 0.0
        return max(self.tried, key=lambda one: one.promise if one.probability >= least else 0.0)


def with_shifts(plain: Proposer, seed: int, beyond: float) -> Chosen:
    """The proposer whose pilot promised most patients for its visits."""
    pilots = _Pilots(plain, seed, beyond)
    for room in _ROOM:
        pilots.look_for_shifts(room)
    raised = pilots.best.proposer.raised
    for less in _SMALLER:
        pilots.ask(np.array(raised.shifts) - less, raised.room)
    best = pilots.best
    if not best.promise:
        raise AdapclaError(
            f"none of {len(pilots.tried) * BLOCK:,} patients with the asked codes made likely fulfils the condition "
            f"({plain.condition.text})\nto do: ask for less at once; its parts may exclude each other"
        )
    return Chosen(best.proposer, pilots.n_visits, best.probability)


def _first_guess(plain: Proposer) -> NDArray[np.float64]:
    """The shift that lifts each clause from its prevalence in training to the goal."""
    share = np.nan_to_num(plain.model.prevalence.share)
    have = np.array([min(max(float(share[codes].sum()), 1e-9), 0.5) for codes in plain.raised.clauses])
    return np.asarray(np.clip(logit(np.array([_GOAL])) - logit(have), 0.01, _LARGEST_SHIFT))
