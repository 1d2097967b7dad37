"""Patients who fulfil a condition, by the model's own distribution given the condition.

The distribution that is wanted is that of drawing patients and rejecting them until one fulfils the condition. Where
the condition is common, that is done. Where it is rare, patients are proposed by *first passage* of its rarest clause
(the codes of which a patient must have one); everything else that is asked is left to rejection.

A network draws the codes of a visit in an order (independent codes in any). Wherever it passes a code of the clause,
it could have drawn it, with a probability that is known there: its hazard. A *stem* is a record in which no code of the
clause is drawn; it passes each of them once a visit. Of each visit a *branch* may leave it: the record up to there, a
code of the clause where the stem passed it, and the rest as the network draws it. With h₁, h₂, … the hazards that a
record passes, a branch that leaves at the i-th of them stands for the probability

    w = (1 − h₁) ··· (1 − hᵢ₋₁) hᵢ

so that the branches of a stem stand for at most 1 together. Every record that fulfils the clause leaves its stem at
one place alone, its first code of the clause. (With `at last` the code may have come before; then each visit is passed
anew, and a branch must end with its visit.) Of the codes of a clause in one visit, one is chosen by its share.

Each stem has a uniform number u. Its branches share the line from 0 to the sum of their weights, and the one in whose
interval u · bound lies is taken, if it fulfils the rest of the condition. So a record is taken with probability
w / bound: in proportion to the model's own probability. Only branches that may be taken are drawn at all. The share of
the distribution that may lie above the bound is `BEYOND` / √n for n patients and at most `MOST_BEYOND`: a fifth of the
standard error that the cohort has, so that no look at the cohort can see it. The card says what was clipped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Cohort
from adapcla.data.criteria import Criteria, suggest_codes
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation.model import Model, dequantize, quantize_condition, quantize_known
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of, draw_rule, flat, join, roll, sample_card
from adapcla.models.base import FREE, NONE, DrawRule, Passage
from adapcla.models.draws import Noise
from adapcla.scaffold import Steering
from adapcla.seeds import stream_key

#: Share of plain patients who fulfil the condition from which they are simply drawn until there are enough.
COMMON = 0.05
#: Share of the distribution that may lie above the bound of the weights: times √n for n patients, and at most.
BEYOND, MOST_BEYOND = 0.1, 0.005
#: Fewest branches that set a bound.
LEAST = 256
#: Proposals after which it is given up, and after which it is where nobody fulfilled the condition.
MOST_PROPOSALS, MOST_IN_VAIN = 5_000_000, 200_000


# ---- proposals ------------------------------------------------------------------------------------------------------
class Begun(NamedTuple):
    """Patients before the first visit that is drawn."""

    number: NDArray[np.int64]  # which proposal each is, or which of somebody's
    attributes: NDArray[np.int64]
    state: Any
    key: int


class Branches(NamedTuple):
    """Where stems may be left, in the order of stems."""

    stem: NDArray[np.int64]  # the row
    visit: NDArray[np.int64]
    attempt: NDArray[np.int64]  # the draw of that visit: a first visit is drawn until it holds a code
    target: NDArray[np.int64]  # the code, by its place in the clause
    low: NDArray[np.float64]  # the interval of each on the line of its stem
    high: NDArray[np.float64]

    def of(self, rows: NDArray[np.int64]) -> Branches:
        """Some of them."""
        return Branches(*(part[rows] for part in self))  # type: ignore[arg-type]


class Proposed(NamedTuple):
    """Those of some proposals who fulfil the condition."""

    n: int
    n_visits: int  # that were computed, of all
    kept: Rolled
    number: NDArray[np.int64]  # the proposal that each belongs to
    low: NDArray[np.float64]  # its interval
    high: NDArray[np.float64]
    share: NDArray[np.float64]  # the probability with which a branch of its place was drawn at all

    def of(self, rows: NDArray[np.int64], n: int, first: int) -> Proposed:
        """Some of them, who belong to n proposals that are numbered from `first` on."""
        kept = self.kept.of_patients(rows)
        return Proposed(n, 0, kept, self.number[rows] - first, self.low[rows], self.high[rows], self.share[rows])


@dataclass(frozen=True, eq=False)
class Proposer:
    """Makes proposals for a condition: by first passage of one of its clauses, or as the model draws patients."""

    model: Model
    condition: Criteria
    rule: DrawRule
    n_visits: int
    min_codes: int = 0
    #: The positions of the codes of the clause, ascending; None for plain patients.
    clause: NDArray[np.int64] | None = None

    @property
    def _places(self) -> int:
        """Visits in which the clause may be met."""
        return 1 if self.condition.at == "first" else min(self.n_visits, self.condition.within or self.n_visits)

    def propose(self, begun: Begun, floor: NDArray[np.float64], uniform: NDArray[np.float64]) -> Proposed:
        """Proposals, of which branches are drawn that may be taken under a bound of at least `floor` (patients,)."""
        n = len(begun.number)
        if self.clause is None:
            rolled = self._roll(begun, np.arange(n), self.rule)
            rows = np.flatnonzero(self._fulfil(rolled))
            ones = np.ones(len(rows))
            kept = rolled.of_patients(rows)
            return Proposed(n, len(rolled.visit_sizes), kept, begun.number[rows], 0 * ones, ones, ones)
        branches, n_visits = self.stems(begun)
        branches = branches.of(np.flatnonzero(branches.high > (floor * uniform)[branches.stem]))
        rolled = self.drawn(begun, branches)
        fulfil = self._fulfil(rolled)
        if self.condition.at == "last":
            fulfil &= rolled.lengths == branches.visit + 1
        rows = np.flatnonzero(fulfil)
        found = branches.of(rows)
        share = np.minimum(found.high / np.maximum(floor[found.stem], 1e-300), 1.0)
        number = begun.number[found.stem]
        n_visits += len(rolled.visit_sizes)
        return Proposed(n, n_visits, rolled.of_patients(rows), number, found.low, found.high, share)

    @torch.no_grad()
    def stems(self, begun: Begun) -> tuple[Branches, int]:
        """The branches of stems, and the visits that stems took."""
        assert self.clause is not None
        network, at_last = self.model.network, self.condition.at == "last"
        chooser = stream_key(begun.key, "first passage")
        n = len(begun.number)
        alive, state = np.arange(n), begun.state
        weight, reached = np.ones(n), np.zeros(n)
        found: list[Branches] = []
        n_visits = 0
        for visit in range(self._places):
            noise = Noise(begun.key, begun.number[alive], 64 * visit)
            none = Passage(self.clause, np.full(len(alive), NONE), np.zeros(len(alive), dtype=np.int64))
            least = max(self.min_codes, int(visit == 0))
            step = network.step(state, replace(self.rule, passage=none), noise, least, certain=visit == 0)
            for passed in step.passed:
                who = alive[passed.rows]
                before = np.cumprod(np.c_[np.ones(len(who)), 1 - passed.hazard], axis=1)
                upto = np.cumsum(before[:, :-1] * passed.hazard, axis=1)
                uniform = Noise(chooser, begun.number[who], 64 * visit + passed.attempt).uniform(1, 0)
                target = np.minimum((uniform * upto[:, -1:] > upto).sum(axis=1), len(self.clause) - 1)
                high = reached[who] + weight[who] * upto[:, -1]
                places = (np.full(len(who), visit), np.full(len(who), passed.attempt))
                found.append(Branches(who, *places, target, reached[who], high))
                reached[who] = high
                weight[who] *= before[:, -1]
            n_visits += len(step.rows)
            if at_last:  # the record goes on as if nothing was asked of this visit
                weight[:] = 1.0
                step = network.step(state, self.rule, noise, least, certain=visit == 0)
                n_visits += len(step.rows)
            alive, state = alive[step.on], step.state
            if not len(alive):
                break
        branches = Branches(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        there = np.flatnonzero(branches.high > branches.low)
        return branches.of(there[np.argsort(branches.stem[there], kind="stable")]), n_visits

    def drawn(self, begun: Begun, branches: Branches) -> Rolled:
        """The records of branches: drawn again as their stems were, up to their place, and then to their end."""
        clause, before = self.clause, FREE if self.condition.at == "last" else NONE
        assert clause is not None

        def rule(alive: NDArray[np.int64], number: int) -> DrawRule:
            place = branches.visit[alive]
            if (place < number).all():
                return self.rule
            target = np.where(place > number, before, np.where(place == number, branches.target[alive], FREE))
            return replace(self.rule, passage=Passage(clause, target, branches.attempt[alive]))

        return self._roll(begun, branches.stem, rule)

    @torch.no_grad()
    def _roll(self, begun: Begun, rows: NDArray[np.int64], rule: Any) -> Rolled:
        """Records of some of the patients; one may be there several times."""
        network, number, attributes = self.model.network, begun.number[rows], begun.attributes[rows]
        if not len(rows):
            return flat([], attributes)
        state = network.select(begun.state, rows)
        return roll(network, state, number, attributes, rule, begun.key, self.n_visits, self.min_codes)

    def _fulfil(self, rolled: Rolled) -> NDArray[np.bool_]:
        """Which patients fulfil the condition."""
        out = rolled.lengths > 0
        if out.any():
            out[out] = self.condition.matches(cohort_of(self.model, rolled, {}))
        return out


class Pool:
    """Proposals who fulfil the condition, with their intervals and uniform numbers; those that cannot be taken go."""

    def __init__(self, key: int, beyond: float) -> None:
        self.key, self.beyond = key, beyond
        self.n = self.fulfilled = 0
        self.bound = self.floor = 0.0
        #: The sum of all weights, and of their squares.
        self.mass = self._squares = 0.0
        self._parts: list[Rolled] = []
        self._low, self._high, self._uniform = np.zeros(0), np.zeros(0), np.zeros(0)

    def uniform(self, number: NDArray[np.int64]) -> NDArray[np.float64]:
        """The uniform number of each proposal."""
        return Noise(self.key, number, 0).uniform(1, 0)[:, 0]

    def add(self, proposed: Proposed) -> None:
        """Take proposals in, and set the bound by all that were seen."""
        weight = proposed.high - proposed.low
        self.n += proposed.n
        self.fulfilled += len(weight)
        self.mass += float((weight / proposed.share).sum())
        self._squares += float((weight**2 / proposed.share).sum())
        self._parts.append(proposed.kept)
        self._low, self._high = np.r_[self._low, proposed.low], np.r_[self._high, proposed.high]
        self._uniform = np.r_[self._uniform, self.uniform(proposed.number)]
        self.bound = self._smallest_bound()
        # The bound hardly ever falls by half: what would only then be taken is not kept.
        self.floor = max(self.floor, self.bound / 2)
        rows = np.flatnonzero(self._high > self.floor * self._uniform)
        self._parts = [join(self._parts).of_patients(rows)]
        self._low, self._high, self._uniform = self._low[rows], self._high[rows], self._uniform[rows]

    def _above(self, bound: float) -> float:
        """The sum of what intervals have above a bound that is not below the floor: all of it was drawn and kept."""
        return float(np.maximum(self._high - np.maximum(self._low, bound), 0).sum())

    def _smallest_bound(self) -> float:
        """The smallest bound above which no more than the given share of all weights lies."""
        low, high = self.floor, float(self._high.max(initial=self.floor))
        if self.beyond == 0 or not self.mass:
            return high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self._above(middle) <= self.beyond * self.mass else (middle, high)
        return high

    @property
    def _acceptance(self) -> NDArray[np.bool_]:
        at = self._uniform * self.bound
        return np.asarray((self._low <= at) & (at < self._high))

    @property
    def n_taken(self) -> int:
        """How many are taken at the present bound."""
        return int(self._acceptance.sum())

    def enough(self, n: int) -> bool:
        """Whether `n` are taken, at a bound that enough branches have set."""
        alike = bool((self._low == 0).all() and (self._high == 1).all())
        return self.n_taken >= n and (alike or self.fulfilled >= LEAST)

    @property
    def probability(self) -> float:
        """The model's own probability that the condition is fulfilled."""
        return self.mass / self.n

    @property
    def effective(self) -> float:
        """The number of equally weighted patients that the proposals are worth: (Σ w)² / Σ w²."""
        return self.mass**2 / self._squares if self._squares else 0.0

    @property
    def clipped_share(self) -> float:
        """Share of the distribution that lies above the bound and is not written."""
        return self._above(self.bound) / self.mass if self.mass else 0.0

    def take(self, n: int) -> Rolled:
        """The first `n` that are taken, in the order of their numbers."""
        return join(self._parts).of_patients(np.flatnonzero(self._acceptance)[:n])


def share_beyond(n: int) -> float:
    """The share of the distribution that may lie above the bound where n patients are asked for.

    >>> share_beyond(100), share_beyond(10_000)
    (0.005, 0.001)
    """
    return float(min(BEYOND / np.sqrt(n), MOST_BEYOND))


def rarest_clause(model: Model, condition: Criteria) -> NDArray[np.int64]:
    """The positions of the codes of the clause that is rarest in training, in the order in which they are drawn."""
    share = np.nan_to_num(model.prevalence.share)
    clauses = condition.clauses(model.vocabulary)
    return np.sort(model.network.order.encode(min(clauses, key=lambda codes: float(share[codes].sum()))))


def has_first_passage(rule: SampleRule) -> bool:
    """Whether visits are drawn so that hazards say all of them: once, code by code."""
    return rule.codes_per_visit == "natural" and rule.min_codes <= 1


# ---- patients -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Effort:
    """What it took to find the patients."""

    #: `plain` (drawn and rejected) or `first passage`.
    way: str
    proposals: int
    #: Proposals that fulfilled the condition.
    fulfilled: int
    #: The number of equally weighted patients that they are worth.
    effective: float
    #: Visits that were computed, and those that rejection would have taken.
    visits: int
    visits_by_rejection: float
    #: The model's own probability that a patient fulfils the condition.
    probability: float
    #: Share of the conditional distribution that is clipped: how far any of its probabilities can be off.
    clipped: float

    def as_card(self) -> dict[str, Any]:
        """For the card of a cohort: numbers rounded, so that a card is the same for the same patients."""
        return {
            **asdict(self),
            "effective": round(self.effective, 1),
            "visits_by_rejection": round(self.visits_by_rejection),
            "probability": float(f"{self.probability:.4g}"),
            "clipped": float(f"{self.clipped:.3g}"),
        }

    @property
    def text(self) -> str:
        """What the command says."""
        if self.way == "plain":
            fulfilled = f"{self.fulfilled:,} fulfil the condition ({self.probability:.2%})"
            return f"{self.proposals:,} patients drawn, {fulfilled}"
        return (
            f"{self.proposals:,} proposals by first passage, {self.visits:,} visits computed, where rejection takes "
            f"about {self.visits_by_rejection:,.0f} (the condition has probability {self.probability:.2g})"
        )


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
        steering: A shift towards a target prevalence; the distribution is then that of the steered model.
        rule: How codes are drawn.
        train: The training patients, where they are at hand: a condition that none of them fulfils is refused.
        beyond: Share of the distribution that may lie above the bound of the weights; see `share_beyond` if left out.
    """
    rule = rule or SampleRule()
    seen = train if train is None or model.quantizer is None else quantize_known(model, train)
    request = Request(model, quantize_condition(model, condition), steering, seen)
    request.check()
    rule = replace(rule, where=(*rule.where, *condition.where))
    beyond = share_beyond(n) if beyond is None else beyond
    rolled, effort = _collect(request, n, seed, draw_rule(model, steering, rule), rule, beyond)
    say(effort.text)
    card = sample_card(model, n, seed, rule, steering)
    card |= {"condition": condition.as_card(), "effort": effort.as_card()}
    return dequantize(model, cohort_of(model, rolled, card), seed)


def _collect(
    request: Request, n: int, seed: int, drawn_by: DrawRule, rule: SampleRule, beyond: float
) -> tuple[Rolled, Effort]:
    """The patients and what it took."""
    model, condition = request.model, request.condition
    model.network.eval()
    n_visits = min(rule.max_visits or model.longest, model.settings.architecture.context)
    if condition.most_visits is not None:  # nobody with more visits fulfils it
        n_visits = min(n_visits, condition.most_visits + 1)
    proposer = Proposer(model, condition, drawn_by, n_visits, rule.min_codes)
    trial = _block(proposer, rule, stream_key(seed, "pilot"), 0, Pool(0, 0.0))
    if len(trial.number) < COMMON * trial.n and condition.having and has_first_passage(rule):
        proposer = replace(proposer, clause=rarest_clause(model, condition))
    pool = Pool(stream_key(seed, "taken"), 0.0 if proposer.clause is None else beyond)
    computed, shown = trial.n_visits, 0
    with meter("sample", n) as bar:
        while not pool.enough(n):
            if pool.n >= (MOST_PROPOSALS if pool.fulfilled else MOST_IN_VAIN):
                raise AdapclaError(_in_vain(pool, n, condition))
            part = _block(proposer, rule, seed, pool.n, pool)
            pool.add(part)
            computed += part.n_visits
            now = max(shown, min(pool.n_taken, n))  # a bound that rises takes some back
            bar.advance(now - shown, f"{pool.n:,} proposals")
            shown = now
    request.check_company(pool.probability)
    way = "plain" if proposer.clause is None else "first passage"
    rejected = n / pool.probability * trial.n_visits / trial.n
    cost = (pool.n, pool.fulfilled, pool.effective, computed, rejected, pool.probability, pool.clipped_share)
    return pool.take(n), Effort(way, *cost)


def _block(proposer: Proposer, rule: SampleRule, seed: int, low: int, pool: Pool) -> Proposed:
    """Proposals low … low + BLOCK − 1 of a seed."""
    model, number, key = proposer.model, np.arange(low, low + BLOCK), stream_key(seed, "on demand")
    law = model.attribute_distribution.given(rule.where)
    attributes = law.draw(number, seed) if law.names else np.zeros((BLOCK, 0), dtype=np.int64)
    state = model.network.begin(torch.from_numpy(attributes), Noise(key, number, 0))
    return proposer.propose(Begun(number, attributes, state, key), np.full(BLOCK, pool.floor), pool.uniform(number))


def _in_vain(pool: Pool, n: int, condition: Criteria) -> str:
    """Why it is given up."""
    if not pool.fulfilled:
        return (
            f"none of {pool.n:,} proposed patients is {condition.text}\n"
            "to do: ask for less at once; its parts may exclude each other"
        )
    return (
        f"{pool.n_taken} of {n} patients after {pool.n:,} proposals\n"
        "to do: ask for fewer patients, or for a condition that is less rare"
    )


# ---- what may be asked ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Request:
    """A condition that a model is asked for, and the training patients where they are at hand.

    A saved model knows how many training visits hold each code (a shareable one not below the smallest count that may
    be told), how many patients have each combination of attributes, and how long the longest record is. It does not
    know how many patients fulfil a condition of several parts. Where the training cohort is given, that is counted;
    elsewhere a shareable model refuses what it expects of fewer patients than may be told, among as many as it was
    trained on.
    """

    model: Model
    condition: Criteria
    steering: Steering | None = None
    train: Cohort | None = None

    def check(self) -> None:
        """Raise where nobody can fulfil the condition, nobody in training did, or too few for a shareable model."""
        model, condition = self.model, self.condition
        lacking = condition.excluded_codes(model.vocabulary)
        model.attribute_distribution.given(condition.where)
        if condition.fewest_visits > model.longest:
            raise UsageError(
                f"{condition.fewest_visits} visits or more: the longest record of this model has {model.longest}"
            )
        for names, codes in zip(condition.having, condition.clauses(model.vocabulary), strict=True):
            name, left = " or ".join(names), np.setdiff1d(codes, lacking)
            if not len(left):
                raise UsageError(f"with and without {name} at once: nobody can fulfil that")
            if self.steering is not None and np.isneginf(self.steering.delta[left]).all():
                raise UsageError(f"{name}: the target prevalence says that it never comes; nobody can have it")
            self._check_seen(name, left)
        if self.train is not None:
            self._check_in(self.train)

    def _check_seen(self, name: str, codes: NDArray[np.int64]) -> None:
        """Raise where training visits hold none of these codes, or too few for a model that may be shared."""
        model = self.model
        if model.settings.privacy is not None:
            return  # nothing exact is known of its training patients, and ε bounds what can be learned of them
        share = model.prevalence.share[codes]
        if (share == 0).all():
            seen = model.vocabulary.subset(np.nan_to_num(model.prevalence.share, nan=1.0) > 0)
            raise UsageError(
                f"{name}: no training visit holds it, so that the model has nothing to say about it\n"
                f"nearest that it has seen: {suggest_codes(name.replace('*', ''), seen) or 'nothing like it'}"
            )
        visits = np.nansum(share) * (model.prevalence.n_visits or 0)
        if model.shareable and visits < MIN_COUNT - 0.5:
            raise UsageError(_too_few(name))

    def _check_in(self, train: Cohort) -> None:
        """Raise where the condition is met by no training patient, or by too few for a shareable model."""
        n = int(self.condition.matches(train, known=False).sum())
        if n == 0:
            raise UsageError(
                f"no training patient is {self.condition.text}\nnearest: {self._parts_in(train) or 'no part of it'}"
            )
        if self.model.shareable and n < MIN_COUNT:
            raise UsageError(_too_few(self.condition.text))

    def _parts_in(self, train: Cohort) -> str:
        """How many training patients fulfil each part of the condition alone."""
        whole = self.condition
        alone = [Criteria(having=(clause,), at=whole.at, within=whole.within) for clause in whole.having]
        alone += [Criteria(where=(part,)) for part in whole.where]
        if whole.fewest_visits > 1 or whole.most_visits is not None:
            alone.append(replace(Criteria(), fewest_visits=whole.fewest_visits, most_visits=whole.most_visits))
        counts = [(part.text, int(part.matches(train, known=False).sum())) for part in alone]
        return "; ".join(
            f"{text}: {n:,} patients" if n >= MIN_COUNT else f"{text}: fewer than {MIN_COUNT}" for text, n in counts
        )

    def check_company(self, probability: float) -> None:
        """Raise where a shareable model expects too few patients of the condition among as many as it learned from."""
        law, where = self.model.attribute_distribution, self.condition.where
        share = float(law.given(where).counts.sum() / law.counts.sum()) if where else 1.0
        n_train = int(self.model.facts.get("patients", 0))
        if self.model.shareable and self.train is None and probability * share * n_train < MIN_COUNT:
            raise UsageError(_too_few(self.condition.text))


def _too_few(what: str) -> str:
    return (
        f"{what}: fewer than {MIN_COUNT} training patients, and this model is made to be shared\n"
        "to do: ask for a family of codes or for fewer parts at once"
    )
