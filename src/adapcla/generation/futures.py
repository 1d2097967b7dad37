"""Continuations of given histories that fulfil a condition, by the model's own law given history and condition.

Each history has a law of its own, and so proposals, weights and a bound of its own; see `conditional`. A history whose
continuations rarely fulfil the condition is asked again with the codes raised by two more, until they do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Attribute, Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation.asked import Asked
from adapcla.generation.conditional import COMMON, LOW, Pool, can_be_weighed, share_beyond
from adapcla.generation.continuation import Continuation, continuation_of, drawn_shares, prefilled
from adapcla.generation.model import Model, condition_inside, refuse_the_dead
from adapcla.generation.proposals import OpenClauses, Raised, log_weights
from adapcla.generation.sampler import Rolled, SampleRule, cohort_of, draw_rule, joined, roll
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.scaffold import Steering
from adapcla.seeds import stream_key

#: Proposals for a history at once, for each continuation that is asked for.
_EACH = 4
#: What each level adds to the log-odds of the asked codes, and the number of levels.
_STEP, _LEVELS = 2.0, 16
#: Proposals of one history after which it is given up.
_MOST = 200_000
#: Proposals computed together.
_AT_ONCE = 4096


def as_known(model: Model, history: Cohort) -> Cohort:
    """Histories in the words of the model: codes it does not know go, attributes it does not know are unknown."""
    dead = history.died()
    if dead.any():
        say(f"{int(dead.sum())} histories end with death; nothing follows, and they are left out")
        history = history.subset(np.flatnonzero(~dead))
    known = np.isin(history.vocabulary.tokens, model.natural.tokens)
    if not known.all():
        say(f"{int((~known).sum())} codes of the histories are unknown to the model and are left out")
        history = history.keep_codes(known)
    attributes = {}
    for name, categories in zip(model.law.names, model.law.categories, strict=True):
        values = np.full(history.n_patients, -1, dtype=np.int16)
        given = history.attributes.get(name)
        if given is not None:
            place = np.array([categories.index(c) if c in categories else -1 for c in given.categories] + [-1])
            values = place[np.asarray(given.values)].astype(np.int16)
        attributes[name] = Attribute(values, categories)
    return replace(history, attributes=attributes).on(model.natural)


@dataclass(eq=False)
class _Asking:
    """One history that is being continued."""

    pool: Pool
    level: int = 0
    asked: int = 0
    fulfilled: int = 0


@dataclass(eq=False)
class _Group:
    """Histories of equal length, whose continuations are rolled together."""

    model: Model
    raised: Raised
    records: Records
    members: NDArray[np.int64]
    key: int
    horizon: int
    draws: int
    steered: bool
    #: Proposals of all members, those of levels that were left included.
    proposals: int = 0
    histories: list[_Asking] = field(default_factory=list)

    @torch.no_grad()
    def found(self) -> list[Rolled]:
        """The continuations of each member."""
        state = prefilled(self.model.network, self.records.batch(self.members), Noise(self.key, self.members, 0))
        before = _as_rolled(self.records, self.members)
        self.histories = [self._asking(0, member) for member in self.members]
        waiting = np.arange(len(self.members))
        while len(waiting):
            levels = np.array([self.histories[i].level for i in waiting])
            for level in np.unique(levels):
                self._ask(waiting[levels == level], int(level), state, before)
            waiting = np.array([i for i in waiting if not self._done(int(i))], dtype=np.int64)
        return [asking.pool.taken(self.draws) for asking in self.histories]

    def _asking(self, level: int, member: int) -> _Asking:
        return _Asking(Pool(stream_key(self.key, "taken", level, member), share_beyond(self.draws)), level)

    def _ask(self, rows: NDArray[np.int64], level: int, state: Any, before: Rolled) -> None:
        """Another round of proposals for some members, at one level."""
        each, network = _EACH * self.draws, self.model.network
        raised = replace(self.raised, shifts=(_STEP * level,) * len(self.raised.clauses))
        for low in range(0, len(rows), max(1, _AT_ONCE // each)):
            some = rows[low : low + max(1, _AT_ONCE // each)]
            copies = np.repeat(some, each)
            number = np.concatenate([self.histories[i].asked + np.arange(each) for i in some])
            patients = self.members[copies] * _MOST * 2 + number
            course = OpenClauses(raised, len(copies), self.horizon)
            rolled = roll(
                network,
                network.keep(state, copies),
                patients,
                before.attributes[copies],
                course if level else self.raised.rule,
                stream_key(self.key, "level", level),
                range(self.horizon),
            )
            kept = np.flatnonzero(self.raised.condition.matches(cohort_of(self.model, rolled, {})))
            weight = np.ones(len(kept))
            if level and len(kept):
                weight = np.exp(log_weights(self.model, course, rolled, kept, before.of_patients(copies[kept])))
            self._share_out(some, copies[kept], rolled.of_patients(kept), number[kept], weight, each)

    def _share_out(
        self,
        some: NDArray[np.int64],
        owner: NDArray[np.int64],
        kept: Rolled,
        number: NDArray[np.int64],
        weight: NDArray[np.float64],
        each: int,
    ) -> None:
        """Give every history its own proposals."""
        for i in some:
            own, asking = np.flatnonzero(owner == i), self.histories[i]
            asking.asked, asking.fulfilled = asking.asked + each, asking.fulfilled + len(own)
            asking.pool.add(kept.of_patients(own), number[own], weight[own], each)
            self.proposals += each

    def _done(self, i: int) -> bool:
        """Whether a history has its continuations; one that hardly gets any goes one level up, and begins anew."""
        asking = self.histories[i]
        if asking.pool.enough(self.draws):
            return True
        rare = asking.fulfilled < COMMON * asking.asked
        if rare and self.steered and asking.level < _LEVELS:
            self.histories[i] = self._asking(asking.level + 1, int(self.members[i]))
        elif asking.asked >= _MOST:
            raise AdapclaError(
                f"a history got {asking.pool.n_taken} of {self.draws} continuations in {asking.asked:,} proposals\n"
                "to do: ask for fewer draws, more visits (--within), or a condition that is less rare"
            )
        return False


def continued_given(
    model: Model, history: Cohort, condition: Criteria, draws: int, seed: int, steering: Steering | None = None
) -> Continuation:
    """`draws` continuations of every history that fulfil the condition; it speaks of the new visits alone.

    The record is taken to go on for the first new visit, and `within` visits are drawn (1 where it is not given).
    """
    if not model.traits.continues:
        raise UsageError(f"{model.method} makes whole records at once; it cannot go on from a history")
    if condition.where:
        raise UsageError("--where belongs to new patients: a history has its attributes already")
    refuse_the_dead(history)
    told, condition = condition, condition_inside(model, condition)
    Asked(model, condition, steering).demand_possible()
    horizon = max(condition.within or 1, condition.fewest_visits, condition.most_visits or 0)
    model.network.eval()
    rule = SampleRule()
    clauses = condition.clauses(model.vocabulary)
    raised = Raised(condition, clauses, (), draw_rule(model, steering, rule), len(model.vocabulary))
    records = Records(model.records(history).cohort, model.shape.context - horizon)
    lengths = np.minimum(records.cohort.visits_per_patient, records.context)
    found: dict[int, Rolled] = {}
    groups: list[_Group] = []
    steered = can_be_weighed(model, rule) and bool(clauses)
    with meter("continue", history.n_patients) as bar:
        for length in np.unique(lengths):
            members = np.flatnonzero(lengths == length)
            key = stream_key(seed, "futures")
            group = _Group(model, raised, records, members, key, horizon, draws, steered)
            groups.append(group)
            found |= dict(zip(members.tolist(), group.found(), strict=True))
            bar.advance(len(members))
    card = {"source": "synthetic", **model.origin.as_card(), "method": model.method, "continued": True, "draws": draws}
    card |= {"condition": told.as_card(), "seed": seed, "effort": _effort(groups)}
    drawn = cohort_of(model, joined([found[i] for i in range(history.n_patients)]), card)
    history_of = np.repeat(np.arange(history.n_patients), draws)
    return continuation_of(model, drawn_shares(drawn, history_of, draws), drawn, history_of, seed)


def _effort(groups: list[_Group]) -> dict[str, Any]:
    """What the continuations took, for the card; it is said too."""
    pools = [asking.pool for group in groups for asking in group.histories]
    fulfilled, effective = sum(len(pool.weights) for pool in pools), sum(pool.effective for pool in pools)
    proposals = sum(group.proposals for group in groups)
    low = sum(pool.effective < LOW * len(pool.weights) for pool in pools)
    say(f"{proposals:,} proposals, {fulfilled:,} fulfil the condition, effective sample size {effective:,.0f}")
    if low:
        say(f"{low} of {len(pools)} histories have an effective sample size below a quarter of their proposals")
    return {"proposals": proposals, "fulfilled": fulfilled, "effective": round(effective, 1), "low histories": low}


def _as_rolled(records: Records, members: NDArray[np.int64]) -> Rolled:
    """The histories as flat arrays."""
    batch = records.batch(members)
    sizes = np.diff(np.r_[batch.offsets.numpy(), len(batch.codes)])
    lengths = np.bincount(batch.patient_of_visit.numpy(), minlength=len(members))
    return Rolled(
        batch.codes.numpy().astype(np.int32), sizes, lengths, batch.gap.numpy(), records.attribute_rows(members)
    )
