"""Patients who fulfil a condition, by the model's own law given the condition.

The law that is wanted is that of drawing patients from the model and throwing them away until one fulfils the
condition. Where that is cheap it is done. Where the condition is rare, patients are proposed with the asked codes made
likely: by visits in which a code is appointed (see `appointments`), or, for several clauses at once, by raising codes
until they have come (see `proposals`). Proposal i has an exact weight w_i and a uniform number u_i of its own, and is
taken if

    u_i < w_i / bound.

Why that is the wanted law: a record x that fulfils the condition is proposed with probability q(x) and taken with
probability min(1, w(x) / bound), so that below the bound it comes out with q(x) · p(x) / q(x) / bound = p(x) / bound:
proportional to p, whatever the shift. Where a proposal has several branches, they share one uniform number: each has a
stretch as long as its weight, one after the other, and the one that holds u_i · bound is taken. Every proposal is
judged once and gives one patient at most, so that nobody is taken twice.

The bound is set by the proposals themselves, and when it moves, the same u_i are held against the new one, so that all
are judged as if it had been known from the beginning. `beyond` is the share of the law that may lie above it: with 0
the bound is the largest weight of all proposals. Every probability of the law that is drawn from is then within that
share of the model's own. By default it is `BEYOND` / √n for n patients and never above `MOST_BEYOND`: a fifth of the
standard error that the cohort has at most, so that no look at the cohort can see it. The card tells what was clipped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError
from adapcla.generation.appointing import can_be_appointed, with_appointments
from adapcla.generation.asked import Asked
from adapcla.generation.model import Model, as_natural, condition_inside, known_inside
from adapcla.generation.pilots import AnyProposer, Chosen, weight_bound, with_shifts
from adapcla.generation.proposals import Proposer, Raised
from adapcla.generation.sampler import Rolled, SampleRule, cohort_of, draw_rule, joined, sample_card
from adapcla.models.base import DrawRule
from adapcla.models.draws import Noise
from adapcla.scaffold import Steering
from adapcla.seeds import stream_key

#: Share of plain patients who fulfil the condition from which they are simply drawn until there are enough.
COMMON = 0.05
#: Effective share of the weighted proposals below which the command says so.
LOW = 0.25
#: Share of the law that may lie above the bound of the weights: times √n for n patients, and at most.
BEYOND, MOST_BEYOND = 0.1, 0.005
#: Bound of the weights from which plain patients are taken as often as proposals, and exactly.
NO_GAIN = 1.0
#: Share of the bound that pilots promise below which it does not fall.
SURE_OF_BOUND = 0.25
#: Fewest weights that set a bound.
LEAST = 256
#: Proposals after which it is given up.
MOST_PROPOSALS = 5_000_000


@dataclass(frozen=True)
class Effort:
    """What it took to find the patients."""

    #: `plain` (drawn and thrown away) or `steered`.
    way: str
    proposals: int
    #: Proposals that fulfilled the condition.
    fulfilled: int
    #: Number of equally weighted patients that those are worth: (Σ w)² / Σ w².
    effective: float
    #: Visits that were computed, pilots included, and those that throwing away would have taken.
    visits: int
    visits_by_rejection: float
    #: The model's own probability that a patient fulfils the condition.
    probability: float
    #: Share of the conditional law that is clipped: how far any of its probabilities can be off.
    clipped: float = 0.0
    #: What was added to the log-odds of each clause's codes.
    shifts: tuple[float, ...] = ()
    #: What was added to the log-odds of all other codes, and how much was made of what they say of the asked one.
    room: float = 0.0
    partners: float = 0.0

    @property
    def low(self) -> bool:
        """Whether the weights are so unequal that the proposals are worth less than a quarter of their number."""
        return self.effective < LOW * self.fulfilled

    def as_card(self) -> dict[str, Any]:
        """For the card of a cohort: numbers rounded, so that a card is the same for the same patients."""
        return {
            **asdict(self),
            "effective": round(self.effective, 1),
            "visits_by_rejection": round(self.visits_by_rejection),
            "probability": float(f"{self.probability:.4g}"),
            "clipped": float(f"{self.clipped:.3g}"),
            "shifts": [round(shift, 3) for shift in self.shifts],
        }


def share_beyond(n: int) -> float:
    """The share of the law that may lie above the bound where n patients are asked for.

    >>> share_beyond(100), share_beyond(10_000)
    (0.005, 0.001)
    """
    return float(min(BEYOND / np.sqrt(n), MOST_BEYOND))


class Pool:
    """Weighted proposals and their uniform numbers, of which those that will hardly be taken are forgotten."""

    def __init__(self, key: int, beyond: float, floor: float = 0.0) -> None:
        self.key, self.beyond = key, beyond
        self.n, self.bound = 0, 0.0
        self.weights = np.zeros(0)
        self._unseen: list[NDArray[np.float64]] = []
        self._parts: list[Rolled] = []
        # The bounds between which each of them is taken.
        self._low, self._high = np.zeros(0), np.zeros(0)
        # The bound never falls below it.
        self._floor = floor

    def _uniform(self, number: NDArray[np.int64]) -> NDArray[np.float64]:
        """The uniform number of each proposal."""
        return Noise(self.key, number, 0).uniform(1, 0)[:, 0]

    def may_take(self, number: NDArray[np.int64], end: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which proposals, by their numbers and the ends of their stretches, may still be taken."""
        return np.asarray(end > self._floor * self._uniform(number))

    def add(
        self,
        kept: Rolled,
        number: NDArray[np.int64],
        weight: NDArray[np.float64],
        n: int,
        below: NDArray[np.float64] | None = None,
        totals: NDArray[np.float64] | None = None,
    ) -> None:
        """Take in proposals, each of which has a stretch as long as its weight: from `below`, or from 0, on.

        `totals` are the sums of the stretches of each number, where a number has several.
        """
        self.n += n
        self._unseen.append(weight if totals is None else totals)
        if not len(self.weights):
            self.settle()
        u, low = self._uniform(number), np.zeros(len(weight)) if below is None else below
        stays = self.may_take(number, low + weight)
        self._parts.append(kept.of_patients(np.flatnonzero(stays)))
        self._low, self._high = np.r_[self._low, (low / u)[stays]], np.r_[self._high, ((low + weight) / u)[stays]]

    def settle(self) -> None:
        """Set the bound by all proposals so far."""
        self.weights = np.concatenate([self.weights, *self._unseen])
        self._unseen = []
        # The bound hardly ever falls by half; what would only then be taken is not kept.
        self.bound = max(weight_bound(self.weights, self.beyond), self._floor)
        self._floor = max(self._floor, self.bound / 2)

    @property
    def n_taken(self) -> int:
        """How many are taken at the present bound."""
        return int(self._taken.sum())

    @property
    def _taken(self) -> NDArray[np.bool_]:
        """Which are taken at the present bound: those in whose stretch u · bound lies."""
        return np.asarray((self._low <= self.bound) & (self.bound < self._high))

    def enough(self, n: int) -> bool:
        """Whether `n` are taken at a bound that all proposals have set, and enough of them where weights differ."""
        if self.n_taken < n:
            return False
        self.settle()
        equal = bool((self.weights == self.weights[:1]).all())
        return self.n_taken >= n and (equal or len(self.weights) >= LEAST)

    @property
    def effective(self) -> float:
        """(Σ w)² / Σ w²."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum()) if len(self.weights) else 0.0

    @property
    def clipped(self) -> float:
        """Share of the law that lies above the bound and is not written."""
        return float(np.maximum(self.weights - self.bound, 0).sum() / self.weights.sum())

    def taken(self, n: int) -> Rolled:
        """The first `n` that are taken, in the order of their numbers."""
        return joined(self._parts).of_patients(np.flatnonzero(self._taken)[:n])


def sample_given(
    model: Model,
    n: int,
    seed: int,
    condition: Criteria,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    train: Cohort | None = None,
    beyond: float | None = None,
) -> Cohort:
    """`n` patients of the model who fulfil the condition; the card says what it took to find them.

    Args:
        model: A fitted model.
        n: Number of patients.
        seed: Seed of the patients.
        condition: What every one of them fulfils.
        steering: A shift towards a target prevalence; the law is then that of the steered model.
        rule: How codes are drawn.
        train: The training patients, where they are at hand: a condition that none of them fulfils is refused.
        beyond: Share of the law that may lie above the bound of the weights; see `share_beyond` if left out.
    """
    rule = rule or SampleRule()
    seen = train if train is None or model.bands is None else known_inside(model, train)
    asked = Asked(model, condition_inside(model, condition), steering, seen)
    asked.demand_possible()
    rule = replace(rule, where=(*rule.where, *condition.where))
    beyond = share_beyond(n) if beyond is None else beyond
    rolled, effort = _found(model, n, seed, asked, draw_rule(model, steering, rule), rule, beyond)
    tell(effort)
    card = sample_card(model, n, seed, rule, steering)
    card |= {"condition": condition.as_card(), "effort": effort.as_card()}
    return as_natural(model, cohort_of(model, rolled, card), seed)


def _found(
    model: Model, n: int, seed: int, asked: Asked, drawn_by: DrawRule, rule: SampleRule, beyond: float
) -> tuple[Rolled, Effort]:
    """The patients and what it took."""
    model.network.eval()
    condition = asked.condition
    clauses = condition.clauses(model.vocabulary)
    alone = model.vocabulary.group_of_code < 0
    raised = Raised(condition, clauses, (0.0,) * len(clauses), drawn_by, len(model.vocabulary), alone=alone)
    plain = Proposer(model, condition, rule, raised)
    first = plain.block(stream_key(seed, "pilot"), 0)
    n_visits, visits_each = first.n_visits, first.n_visits / first.n
    chosen = Chosen(plain, 0, 1.0)
    if len(first.weight) < COMMON * first.n and clauses and can_be_weighed(model, rule):
        chosen = _chosen(plain, n, seed, beyond)
        n_visits += chosen.n_visits
        asked.demand_company(chosen.probability * asked.share_of_where)
    pool, proposer, spent = _filled(plain, chosen, n, seed, beyond)
    probability = float(pool.weights.sum()) / pool.n
    effort = Effort(
        "steered" if proposer.steered else "plain",
        pool.n,
        len(pool.weights),
        pool.effective,
        n_visits + spent,
        n / probability * visits_each,
        probability,
        pool.clipped,
        **proposer.described,
    )
    if not proposer.steered:
        asked.demand_company(probability * asked.share_of_where)
    return pool.taken(n), effort


def _chosen(plain: Proposer, n: int, seed: int, beyond: float) -> Chosen:
    """How patients of a rare condition are proposed."""
    if can_be_appointed(plain):
        return with_appointments(plain, n, seed, beyond)
    return with_shifts(plain, seed, beyond)


def _filled(plain: Proposer, chosen: Chosen, n: int, seed: int, beyond: float) -> tuple[Pool, AnyProposer, int]:
    """A pool that holds enough, by whom its proposals were made, and the visits that they took."""
    proposer, n_visits = chosen.proposer, 0
    floor = chosen.bound * SURE_OF_BOUND
    pool = Pool(stream_key(seed, "taken"), beyond if proposer.steered else 0.0, floor)
    with meter("sample", n) as bar:
        shown = 0  # a bound that rises takes some back
        while not pool.enough(n):
            if proposer.steered and pool.bound >= NO_GAIN:
                proposer, seed = plain, stream_key(seed, "plain after all")
                pool = Pool(stream_key(seed, "taken"), 0.0)
            part = proposer.block(seed, pool.n, pool.may_take)
            pool.add(part.kept, part.number, part.weight, part.n, part.below, part.totals)
            n_visits += part.n_visits
            now = max(shown, min(pool.n_taken, n))
            bar.advance(now - shown, f"{pool.n:,} proposals")
            shown = now
            _demand_progress(pool.n_taken, n, pool.n, proposer.steered)
    return pool, proposer, n_visits


def can_be_weighed(model: Model, rule: SampleRule) -> bool:
    """Whether the probabilities of a visit's codes are those of the network's likelihood, so that weights are exact."""
    plain = rule.temperature == 1 and rule.codes_per_visit == "natural" and rule.min_codes == 0
    return plain and model.settings.architecture.exact_steps and model.traits.steerable


def _demand_progress(n_taken: int, n: int, proposals: int, steered: bool) -> None:
    """Raise when there is no end in sight."""
    if n_taken < n and proposals >= MOST_PROPOSALS:
        way = (
            "" if steered else " (this model or rule of drawing has no exact weights, so that patients are thrown away)"
        )
        raise AdapclaError(
            f"{n_taken} of {n} patients after {proposals:,} proposals{way}\n"
            "to do: ask for fewer patients, or for a condition that is less rare"
        )


def tell(effort: Effort) -> None:
    """Say what it took."""
    if effort.way == "plain":
        say(
            f"{effort.proposals:,} patients drawn, {effort.fulfilled:,} fulfil the condition ({effort.probability:.2%})"
        )
        return
    say(
        f"{effort.proposals:,} proposals, {effort.fulfilled:,} fulfil the condition, effective sample size "
        f"{effort.effective:,.0f}; {effort.visits:,} visits computed, where throwing away takes about "
        f"{effort.visits_by_rejection:,.0f} (the condition has probability {effort.probability:.2g})"
    )
    if effort.low:
        say(
            f"the effective sample size is {effort.effective / effort.fulfilled:.0%} of the proposals that fulfil the "
            "condition, below a quarter: few histories carry much of it, and many proposals were needed"
        )
