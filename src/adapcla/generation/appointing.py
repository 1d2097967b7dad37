"""How visits and codes are appointed and what is added to logits then: what pilots of several ways promise for all.

Pilots are drawn in a few ways, and a record of any of them tells about every way that is thought of: how probable it is
in each follows from the network's likelihood alone. All pilots together are draws of the mean of their ways, so that a
record x stands for p(x) / mean of q(x) of the law (balance heuristic). With these masses the bound of the weights of a
way is known without any proposal of it, and with it the patients that it promises for each visit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import AdapclaError
from adapcla.generation.appointments import AppointedProposer, Appointments, Branches
from adapcla.generation.partners import Partners, partners_of, visit_shares
from adapcla.generation.pilots import Chosen, weight_bound
from adapcla.generation.proposals import Proposer
from adapcla.generation.sampler import BLOCK, joined
from adapcla.scaffold.steering import logit
from adapcla.seeds import stream_key

#: Codes of a clause that can be appointed one by one.
MOST_CODES = 12


class Way(NamedTuple):
    """A way of drawing appointed visits."""

    #: The log-odds that the appointed code gets in a visit in which it has the log-odds of its prevalence.
    certainty: float
    #: What is added to the log-odds of all codes that it hears of, and how much is made of what they say.
    room: float = 0.0
    partners: float = 0.0


_CERTAIN = 12.0
#: Ways that pilots are drawn in where the asked code hears of others, and all that are considered.
_DRAWN = tuple(Way(_CERTAIN, room, 0.5 * (room < 0)) for room in (0.0, -0.5, -1.0, -1.5))
_CONSIDERED = (
    *_DRAWN,
    *(Way(_CERTAIN, room, much) for room, much in product((0.0, -0.25, -0.75, -1.25), (0.5,))),
    *(Way(_CERTAIN, room, much) for room, much in product((-0.5, -1.0, -1.5), (0.0, 0.75))),
)
#: The same where it hears of none: codes that are drawn one after another must not be certain to come first.
_DRAWN_ALONE = tuple(Way(certainty) for certainty in (_CERTAIN, 0.0, -2.0))
_CONSIDERED_ALONE = (*_DRAWN_ALONE, *(Way(certainty) for certainty in (2.0, -1.0, -3.0)))
#: Stems of pilots of each way, at least and at most; between, half as many as patients are asked for.
_FEWEST_PILOTS, _MOST_PILOTS = 128, 512
#: Branches that pilots should hold, and rounds in which they are looked for.
_ENOUGH, _ROUNDS = 100, 6


@dataclass(frozen=True, eq=False)
class _Setting:
    """What all ways have in common."""

    plain: Proposer
    codes: NDArray[np.int64]
    partners: Partners

    @property
    def chances(self) -> NDArray[np.float64]:
        """(codes,) of each to be appointed: the rarer the less, but not as much less."""
        root = np.sqrt(visit_shares(self.plain.model)[self.codes])
        return np.asarray(root / root.sum())

    def proposer(self, way: Way) -> AppointedProposer:
        """A proposer of a way."""
        raised = self.plain.raised
        shifts = self.partners.tilts(way.room, way.partners)
        own = way.certainty - logit(visit_shares(self.plain.model)[self.codes])
        shifts[np.arange(len(self.codes)), self.codes] = own
        appointments = Appointments(raised.condition, self.codes, raised.rule, self.chances, shifts)
        described = {"shifts": tuple(float(one) for one in own), "room": way.room, "partners": way.partners}
        return AppointedProposer(self.plain, appointments, described)

    @property
    def ways(self) -> tuple[tuple[Way, ...], tuple[Way, ...]]:
        """Ways in which pilots are drawn, and all ways that are considered; the first are among them."""
        return (_DRAWN, _CONSIDERED) if self.partners.heard.any() else (_DRAWN_ALONE, _CONSIDERED_ALONE)


def can_be_appointed(plain: Proposer) -> bool:
    """Whether the condition has one clause, of not too many codes."""
    return len(plain.raised.clauses) == 1 and len(plain.raised.clauses[0]) <= MOST_CODES


def with_appointments(plain: Proposer, n: int, seed: int, beyond: float) -> Chosen:
    """The proposer that promises most for n patients, after pilots."""
    rule, share = plain.raised.rule, visit_shares(plain.model)
    codes = plain.raised.clauses[0]
    codes = codes[np.argsort(-share[codes], kind="stable")]
    partners = partners_of(plain.model, codes, rule, plain.begun(seed, 0, 1).attributes)
    setting = _Setting(plain, codes, partners)
    pilots = _piloted(setting, n, seed)
    number = pilots.best
    bound = weight_bound(pilots.weights[number], beyond, pilots.mass)
    n_visits = partners.n_visits + pilots.n_visits
    return Chosen(setting.proposer(setting.ways[1][number]), n_visits, float(pilots.mass.sum()), bound)


class _Pilots(NamedTuple):
    """Branches of all pilots that fulfil the condition."""

    #: (ways considered, branches) the weight that each would have.
    weights: NDArray[np.float64]
    #: (branches,) the probability that each stands for.
    mass: NDArray[np.float64]
    n_visits: int

    @property
    def best(self) -> int:
        """The way that promises most patients.

        A bound hangs on the few largest weights that pilots met, and the least of many such bounds is there by luck;
        the root mean square of the weights of the law goes with the bound and is told by all of them.
        """
        return int(np.argmin((self.weights**2) @ self.mass))


def _piloted(setting: _Setting, n: int, seed: int) -> _Pilots:
    """Pilots until there are branches enough."""
    drawn, considered = setting.ways
    proposers = [setting.proposer(way) for way in considered]
    found: list[Branches] = []
    n_visits, n_each, each = 0, 0, int(np.clip(n // 2, _FEWEST_PILOTS, _MOST_PILOTS))
    for number in range(_ROUNDS):
        for d in range(len(drawn)):
            part, spent = _fulfilling(proposers[d], stream_key(seed, "appointing", number, d), each)
            found.append(part)
            n_visits += spent
        n_each, each = n_each + each, BLOCK
        if sum(len(part.stem) for part in found) >= _ENOUGH:
            break
    if not any(len(part.stem) for part in found):
        raise AdapclaError(
            f"none of {len(drawn) * n_each:,} patients with an appointed code fulfils the condition "
            f"({setting.plain.condition.text})\nto do: ask for less at once; its parts may exclude each other"
        )
    both = Branches(
        joined([part.rolled for part in found]),
        np.concatenate([part.stem for part in found]),
        np.concatenate([part.code for part in found]),
    )
    weights = np.exp([both.log_weight(one) for one in proposers]) / setting.chances[both.code]
    mass = 1 / ((1 / weights[: len(drawn)]).sum(axis=0) * n_each)
    return _Pilots(weights, mass, n_visits)


def _fulfilling(proposer: AppointedProposer, seed: int, n: int) -> tuple[Branches, int]:
    """The branches of n stems that fulfil the condition, and the visits that they took."""
    found, n_visits = proposer.branches(seed, 0, n)
    if not proposer.settled:
        whole, fulfils = proposer.finished(found, stream_key(seed, "on demand"))
        n_visits += int((whole.lengths - found.rolled.lengths).sum())
        found = found.of(fulfils)
    return found, n_visits
