"""The visit network: code tables, a trunk over visits, a head for the codes, and small heads for what else follows.

AdaPCLA, its ablations, `tailwise`, the LSTM and HALO are this network with different trunks and heads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.models.batch import Batch, Records
from adapcla.models.contract import Drawn, DrawRule, Likelihood, Network, Shape
from adapcla.models.draws import Noise, bernoulli
from adapcla.models.gaps import N_BUCKETS, drawn_gap, gap_nll
from adapcla.models.heads import BlockwiseHead, Head, IndependentHead
from adapcla.models.layers import CodeTable, VisitEmbedding
from adapcla.models.leads import Leads
from adapcla.models.recall import Memory, Push, Recall, had_before, had_in_all


class RollState(NamedTuple):
    """Where patients stand: their states, which row of them each patient uses, the cache and their place."""

    states: Tensor
    row_of_patient: Tensor | None
    cache: Any
    n_seen: int
    memory: Memory


class VisitNetwork(Network):
    """A causal trunk over visits with a head for the next visit's codes.

    Codes are kept in rank order inside (most frequent first), so that a block of the head is a slice of the tables.
    """

    def __init__(
        self,
        table: CodeTable,
        embedding: VisitEmbedding,
        trunk: nn.Module,
        head: Head,
        code_of_rank: Tensor,
        width: int,
        recall: Recall | None = None,
        leads: Leads | None = None,
    ) -> None:
        super().__init__()
        self.table, self.embedding, self.trunk = table, embedding, trunk
        self.head, self.recall, self.leads = head, recall, leads
        self.going_on = nn.Linear(width, 1)
        self.gap_head = nn.Linear(width, N_BUCKETS) if embedding.gap is not None else None
        # Saved with the weights: a suppressed prior could not give the order back.
        self.code_of_rank: Tensor
        self.rank_of_code: Tensor
        self.register_buffer("code_of_rank", code_of_rank)
        self.register_buffer("rank_of_code", torch.argsort(code_of_rank))

    def _ranked(self, batch: Batch) -> Batch:
        return replace(batch, codes=self.rank_of_code[batch.codes])

    def _in_rank_order(self, bias: Tensor | None) -> Tensor | None:
        return None if bias is None else bias[self.code_of_rank]

    def states(self, batch: Batch) -> Tensor:
        """States (starts + visits, width); `batch` in rank order."""
        visits = self.embedding.visits(self.table(), batch.codes, batch.offsets, batch.position, batch.gap)
        rows = torch.cat([self.embedding.starts(batch.start_attributes), visits])
        out: Tensor = self.trunk(rows, batch)
        return out

    def _push(self, states: Tensor, ranked: Batch) -> Push:
        """What is added for codes that were there before each visit, and for those that such codes lead to."""
        recalled = None if self.recall is None else self.recall(states, had_before(ranked), ranked.row_before)
        return _both(recalled, None if self.leads is None else self.leads(ranked))

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed loss: codes of real visits, continuing, and day gaps where the cohort has them."""
        ranked = self._ranked(batch)
        states = self.states(ranked)
        push = self._push(states, ranked)
        total = self.head.loss(states, ranked, self._in_rank_order(bias), positive_weight, push)
        total = total + self._going_on_nll(states, ranked).sum()
        if self.gap_head is not None:
            total = total + self._gap_nll(states, ranked).sum()
        return total

    def observe(self, records: Records, shape: Shape) -> Shape:
        """Count pairs of codes where the head listens to them."""
        if not isinstance(self.head, BlockwiseHead) or self.head.company is None:
            return shape
        alone = self.head.alone
        if self.leads is not None:
            self.leads.observe(records, self.rank_of_code, alone)
            shape = shape._replace(n_leads=self.leads.n_pairs)
        if self.head.groups is not None:
            of_entry = alone[self.rank_of_code].numpy()[records.cohort.codes]
            records = replace(records, cohort=records.cohort.keep_entries(of_entry))
        self.head.company.observe(records, self.rank_of_code, self.head.block_of_code)
        return shape._replace(n_pairs=self.head.company.n_pairs)

    def going_on_logits(self, batch: Batch) -> Tensor:
        """(visits,) log-odds that the record goes on after each visit."""
        states = self.states(self._ranked(batch))
        logits: Tensor = self.going_on(states[batch.n_starts :])[:, 0]
        return logits

    def _going_on_nll(self, states: Tensor, batch: Batch) -> Tensor:
        """(visits,) of whether the record goes on after each visit; 0 after death, which leaves no question."""
        logits = self.going_on(states[batch.n_starts :])[:, 0]
        nll = F.binary_cross_entropy_with_logits(logits, batch.continues, reduction="none")
        return nll if self.last_code is None else nll * batch.lacks(int(self.rank_of_code[self.last_code]))

    def _gap_nll(self, states: Tensor, batch: Batch) -> Tensor:
        """(visits,) of the days before each visit, 0 for first visits."""
        assert self.gap_head is not None
        later = (batch.position > 0).nonzero()[:, 0]
        return gap_nll(self.gap_head(states[batch.row_before[later]]), batch)

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are."""
        ranked = self._ranked(batch)
        states = self.states(ranked)
        codes = self.head.nll(states, ranked, self._in_rank_order(bias), self._push(states, ranked))
        rest = self._going_on_nll(states, ranked).double()
        if self.gap_head is not None:
            rest = rest + self._gap_nll(states, ranked)
        record = torch.zeros(batch.n_patients, dtype=torch.float64)
        record.index_add_(0, batch.patient_of_visit, codes + rest)
        return Likelihood(codes, record)

    @torch.no_grad()
    def next_chances(self, batch: Batch, bias: Tensor | None = None) -> Tensor | None:
        """Chances (patients, codes), in vocabulary order, of the visit after each patient's last one, or None."""
        if not isinstance(self.head, IndependentHead):
            return None
        logits = self.logits_after(self._ranked(batch))
        logits = (logits if bias is None else logits + bias[self.code_of_rank]).double()
        groups = self.head.groups
        return (torch.sigmoid(logits) if groups is None else groups.chances(logits))[:, self.rank_of_code]

    @torch.no_grad()
    def next_logits(self, batch: Batch) -> Tensor | None:
        """Logits (patients, codes), in vocabulary order, of the visit after each patient's last one.

        None where the head draws codes that know of each other, so that it has no single logit for each.
        """
        if not isinstance(self.head, IndependentHead):
            return None
        return self.logits_after(self._ranked(batch))[:, self.rank_of_code]

    def logits_after(self, ranked: Batch) -> Tensor:
        """The same with gradients, codes in rank order; the head must be independent."""
        assert isinstance(self.head, IndependentHead)
        last = ranked.n_starts + (ranked.continues == 0).nonzero()[:, 0]
        states = self.states(ranked)[last]
        logits = self.head.logits(states)
        return logits if self.recall is None else self.recall(states, had_in_all(ranked)).added_to(logits)

    # ---- rolling out ------------------------------------------------------------------------------------
    @torch.no_grad()
    def begin(self, attributes: Tensor, noise: Noise) -> RollState:
        """The state of patients (n, attributes) before their first visit; equal patients share a row."""
        distinct, row_of_patient = np.unique(attributes.numpy(), axis=0, return_inverse=True)
        states, cache = self.trunk.step(self.embedding.starts(torch.from_numpy(distinct)), None)  # type: ignore[operator]
        return RollState(states, torch.from_numpy(row_of_patient.ravel()), cache, 0, Memory.empty())

    @torch.no_grad()
    def goes_on(self, state: RollState, noise: Noise) -> NDArray[np.bool_]:
        """Whether each patient has another visit."""
        logits = self.going_on(state.states)[:, 0]
        return bernoulli(logits if state.row_of_patient is None else logits[state.row_of_patient], noise, channel=0)

    @torch.no_grad()
    def draw_gap(self, state: RollState, noise: Noise) -> NDArray[np.int64]:
        """Days until the next visit: a bucket, then a day in it."""
        if self.gap_head is None or state.n_seen == 0:
            return np.zeros(len(noise.patients), dtype=np.int64)
        return drawn_gap(self.gap_head(state.states), noise)

    @torch.no_grad()
    def draw_visit(self, state: RollState, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes of the next visit."""
        ranked = replace(rule, bias=self._in_rank_order(rule.bias))
        # Before the first visit nobody has had anything, and patients share the rows of states.
        recall, leads = (self.recall, self.leads) if state.n_seen else (None, None)
        recalled = None if recall is None else recall(state.states, state.memory.had())
        push = _both(recalled, None if leads is None else leads.after(state.memory))
        who, ranks = self.head.draw(state.states, state.row_of_patient, ranked, noise, push)
        codes = self.code_of_rank.numpy()[ranks]
        order = np.lexsort((codes, who))
        return who[order], codes[order]

    @torch.no_grad()
    def absorb(self, state: RollState, drawn: Drawn, gap: NDArray[np.int64]) -> RollState:
        """The state after that visit; every patient must have drawn a code."""
        who, codes = drawn
        n = len(gap)
        cache = state.cache
        if state.row_of_patient is not None:
            cache = cache.keep(state.row_of_patient)
        offsets = torch.from_numpy(np.searchsorted(who, np.arange(n)))
        ranks = self.rank_of_code[torch.from_numpy(codes)]
        place = torch.full((n,), state.n_seen, dtype=torch.int64)
        rows = self.embedding.visits(self.table(), ranks, offsets, place, torch.from_numpy(gap))
        states, cache = self.trunk.step(rows, cache)  # type: ignore[operator]
        remembers = self.recall is not None or self.leads is not None
        memory = state.memory.after((who, ranks.numpy())) if remembers else state.memory
        return RollState(states, None, cache, state.n_seen + 1, memory)

    def keep(self, state: RollState, rows: NDArray[np.int64]) -> RollState:
        """The state of some of the patients."""
        index = torch.from_numpy(rows)
        if state.row_of_patient is not None:
            return state._replace(row_of_patient=state.row_of_patient[index])
        memory = state.memory.keep(rows)
        return state._replace(states=state.states[index], cache=state.cache.keep(index), memory=memory)


def _both(one: Push, other: Push) -> Push:
    """Both pushes, as far as there are any."""
    return one.and_also(other) if one is not None and other is not None else one if other is None else other
