"""How a history state becomes the codes of the next visit.

A head has four ways of being asked: `loss` with gradients, `nll` of each visit, `draw` of codes, and `logits` where
one shot gives every code's logit. Bias arguments are in the head's own code order (rank order, see the network).
Pushes are what recall adds to the logits of codes that were there before; a head without room for them refuses them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.errors import UsageError
from adapcla.models.batch import Origin
from adapcla.models.block_draws import VisitsSoFar, draw_ahead, windows
from adapcla.models.company import Company, Listener
from adapcla.models.contract import Drawn, DrawRule
from adapcla.models.counting import Counting
from adapcla.models.counts import independent_codes
from adapcla.models.draws import Noise
from adapcla.models.group_pushes import group_pushes
from adapcla.models.groups import Groups, group_noise
from adapcla.models.kernels.bce import TILE_ELEMENTS, SparseTargets, sparse_bce, sparse_targets
from adapcla.models.kernels.blocks import BlockParts, SharedFirst, block_bce, block_nll, shared_first
from adapcla.models.kernels.spoken import Added, Spoken
from adapcla.models.kernels.taken import repeated
from adapcla.models.layers import CodeTable, Dropout, Remembering
from adapcla.models.recall import Push, Pushes, pair_dots
from adapcla.models.visit_entries import Whose

#: Added to the logits (codes,), or nothing.
Bias = Tensor | None
#: The state row of each patient, or one each.
Rows = Tensor | None


class Visits(Protocol):
    """What a head needs to know about the visits it is asked about."""

    @property
    def row_before(self) -> Tensor:
        """(visits,) the state row that predicts each visit."""

    @property
    def visit_of_entry(self) -> Tensor:
        """(entries,) the visit of each code."""

    @property
    def codes(self) -> Tensor:
        """(entries,) code positions."""

    @property
    def patient_of_visit(self) -> Tensor:
        """(visits,) whose visit it is."""

    @property
    def origin(self) -> Origin | None:
        """Where the patients come from, if that is known."""


class Head(Protocol):
    """The contract of heads."""

    @property
    def bias(self) -> Tensor:
        """(codes,) the log-odds of codes before anything is known of the visit."""

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float, push: Push = None) -> Tensor:
        """The summed loss of all visits, with gradients."""

    def nll(self, states: Tensor, visits: Visits, bias: Bias, push: Push = None) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""

    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise, push: Push = None) -> Drawn:
        """(patient, code) pairs of one drawn visit for each patient."""


@torch.no_grad()
def sparse_nll(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    visit_rows: Tensor,
    visit_of_entry: Tensor,
    codes: Tensor,
    groups: Groups | None = None,
) -> Tensor:
    """The negative log-likelihood of each visit (visits,), in nats; `codes` and `visit_of_entry` list its entries."""
    used, row_of_visit = torch.unique(visit_rows, return_inverse=True)
    asked, tall = states[used], max(1, TILE_ELEMENTS // max(len(weight), 1))
    base = torch.empty(len(used), dtype=torch.float64)
    for low in range(0, len(used), tall):
        logits = torch.addmm(bias, asked[low : low + tall], weight.t())
        sums = F.softplus(logits) if groups is None else groups.normalisers(logits)
        base[low : low + tall] = sums.sum(1).double()
    out = base[row_of_visit]
    entry_logits = (states[visit_rows[visit_of_entry]] * weight[codes]).sum(1) + bias[codes]
    return out.index_add_(0, visit_of_entry, -entry_logits.double())


class IndependentHead(nn.Module):
    """The paper's: one Bernoulli per code, all at once; one category per choice group."""

    def __init__(self, table: CodeTable, initial_logits: Tensor, groups: Groups | None = None) -> None:
        super().__init__()
        self.table, self.groups = table, groups
        self.bias = nn.Parameter(initial_logits.clone())

    def _bias(self, extra: Tensor | None) -> Tensor:
        return self.bias if extra is None else self.bias + extra

    def logits(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """Logits (rows, codes)."""
        return torch.addmm(self._bias(bias), states, self.table().t())

    def _at(self, states: Tensor, visits: Visits, bias: Bias, push: Pushes) -> Tensor:
        """The logit (lines,) of each pushed code of a visit, without the push."""
        dots = pair_dots(states, self.table(), visits.row_before[push.rows], push.codes)
        return dots + self._bias(bias)[push.codes]

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1, push: Push = None) -> Tensor:
        """The summed loss of all visits, with gradients."""
        targets = sparse_targets(
            visits.row_before[visits.visit_of_entry], visits.codes, visits.row_before, states.shape[0], self.groups
        )
        total = sparse_bce(states, self.table(), self._bias(bias), targets, positive_weight)
        if push is not None:
            if self.groups is not None:
                of_groups, push = self._of_groups(states, visits, bias, push, positive_weight)
                total = total + of_groups.sum()
            total = total + push.change(self._at(states, visits, bias, push), positive_weight).sum()
        return total

    def _of_groups(
        self, states: Tensor, visits: Visits, bias: Bias, push: Pushes, positive_weight: float = 1.0
    ) -> tuple[Tensor, Pushes]:
        """By how much pushes of choices change the loss of each visit (visits,), and the other pushes."""
        assert self.groups is not None
        members, of_codes = group_pushes(self.groups, push, visits.visit_of_entry, visits.codes)
        logits = self._at(states, visits, bias, members.lines)
        return members.change(logits, len(visits.row_before), positive_weight), of_codes

    @torch.no_grad()
    def nll(self, states: Tensor, visits: Visits, bias: Bias = None, push: Push = None) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""
        entries = (visits.row_before, visits.visit_of_entry, visits.codes)
        out = sparse_nll(states, self.table(), self._bias(bias), *entries, self.groups)
        if push is not None:
            if self.groups is not None:
                of_groups, push = self._of_groups(states, visits, bias, push)
                out += of_groups.double()
            out.index_add_(0, push.rows, push.change(self._at(states, visits, bias, push)).double())
        return out

    @torch.no_grad()
    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise, push: Push = None) -> Drawn:
        """(patient, code) pairs of one drawn visit for each patient."""
        logits = self.logits(states)
        logits = rule.applied(logits if push is None else push.added_to(logits))
        return independent_codes(logits, row_of_patient, rule, noise, self.groups)


def _whose(order: SharedFirst, visits: Visits) -> Whose:
    """Whose the visits are, in the order in which they are computed."""
    patients = torch.empty_like(order.place)
    patients[order.place] = visits.patient_of_visit
    lengths = torch.bincount(visits.patient_of_visit)
    return Whose(patients, order.place, torch.cumsum(lengths, 0) - lengths, visits.origin)


class BlockwiseHead(Remembering):
    """Ours: codes in blocks; a block knows the history and the codes drawn before it.

    The state of block k is H + C·gelu(A·H + Σ Q[codes of earlier blocks] + e_k), and its logits are the shared output
    table applied to that state. W·(H + C·u) = W·H + (W·C)·u, so the wide product is done once over [H, u] and training
    stays parallel over blocks.
    """

    def __init__(
        self,
        table: CodeTable,
        within: CodeTable,
        initial_logits: Tensor,
        width: int,
        hidden: int,
        sizes: list[int],
        dropout: float = 0.0,
        company: Company | None = None,
        counting: Counting | None = None,
        groups: Groups | None = None,
    ) -> None:
        super().__init__()
        self.table, self.within, self.company, self.counting = table, within, company, counting
        self.groups = groups
        self.bias = nn.Parameter(initial_logits.clone())
        self.sizes = sizes
        self.from_history = nn.Linear(width, hidden)
        self.block = nn.Parameter(torch.randn(len(self.sizes), hidden) * 0.1)
        self.to_state = nn.Parameter(torch.randn(width, hidden) * max(hidden, 1) ** -0.5)
        self.dropout = Dropout(dropout)
        blocks = torch.arange(len(sizes))
        number = torch.repeat_interleave(blocks, torch.tensor(sizes), output_size=len(initial_logits))
        self.block_of_code: Tensor
        self.register_buffer("block_of_code", number, persistent=False)
        # Company is among codes of their own: see `_spoken`.
        self.alone: Tensor
        self.register_buffer("alone", torch.ones(len(initial_logits), dtype=torch.bool), persistent=False)
        for run in () if groups is None else groups.runs:
            self.alone[run.columns] = False

    def _inner(self, history: Tensor, row_of_visit: Tensor, targets: SparseTargets) -> Tensor:
        """What each block of each visit adds to the history: u (visits, blocks, hidden), teacher-forced.

        Most blocks of a visit are empty and leave its state as it was. So states are summed up over the blocks that
        hold codes, and each block takes that of its place.
        """
        n_visits, n_blocks, hidden = len(row_of_visit), len(self.sizes), self.block.shape[1]
        cell = targets.rows * n_blocks + self.block_of_code[targets.codes]
        drawn = torch.bincount(cell, minlength=n_visits * n_blocks).view(n_visits, n_blocks)
        holds = (drawn > 0).long()
        place, n_places = torch.cumsum(holds, 1) - holds, int(holds.sum(1).max()) + 1
        after = targets.rows * n_places + place.view(-1)[cell] + 1
        sums = torch.zeros(n_visits * n_places, hidden).index_add(0, after, F.embedding(targets.codes, self.within()))
        states = torch.cumsum(sums.view(n_visits, n_places, hidden), dim=1)
        states = states + self.from_history(history)[row_of_visit][:, None]
        if self.counting is not None:
            numbers = torch.bincount(after, minlength=n_visits * n_places).view(n_visits, n_places)
            states = states + self.counting.states(torch.cumsum(numbers, 1))
        of_block = place + torch.arange(n_visits)[:, None] * n_places
        of_blocks = repeated(states.flatten(0, 1), of_block.view(-1)).view(n_visits, n_blocks, hidden)
        inner: Tensor = self.dropout(F.gelu(of_blocks + self.block))
        if self.counting is None:
            return inner
        # One more unit of the state, which all codes of a block hear alike.
        shifts = self.counting.shifts(torch.cumsum(drawn, 1) - drawn, torch.arange(n_blocks))
        return torch.cat([inner, shifts[..., None]], dim=2)

    def _lifted(self) -> Tensor:
        """W·C (codes, hidden)."""
        return self.remembered(lambda: self.table() @ self.to_state)

    def _parts(
        self, states: Tensor, visits: Visits, bias: Bias, table: Tensor, lifted: Tensor
    ) -> tuple[SharedFirst, BlockParts, SparseTargets]:
        """The order in which visits are computed, what their logits are made of, and their codes."""
        order = shared_first(visits.row_before)
        history = states[order.rows]
        rows = order.place[visits.visit_of_entry]
        targets = SparseTargets(rows, visits.codes, torch.ones(len(order.place)), self.groups)
        inner = self._inner(history, order.row_of_place, targets)
        if self.counting is not None:
            lifted = torch.cat([lifted, torch.ones(len(lifted), 1)], dim=1)
        whole = self.bias if bias is None else self.bias + bias
        return order, BlockParts(history, inner, table, lifted, whole), targets

    def _spoken(self, targets: SparseTargets, whose: Whose | None) -> Spoken | None:
        """What codes of earlier blocks say of later ones that they met, if anybody listens.

        Codes of choice groups neither speak nor listen. They are few and each of many patients, so that the state of
        the visit learns whom they stand with, and lists of whom every band of every number met would be long.
        """
        if self.company is None or self.company.silent:
            return None
        rows, codes = targets.rows, targets.codes
        if self.groups is not None:
            speaks = self.alone[codes]
            rows, codes = rows[speaks], codes[speaks]
        spoken = self.company.spoken(rows, codes, self.block_of_code, len(targets.multiplicity), whose)
        if self.groups is None:
            return spoken
        listens = torch.zeros(len(self.sizes)).index_fill(0, self.block_of_code[self.alone], 1.0)
        return spoken._replace(strength=spoken.strength * listens)

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1, push: Push = None) -> Tensor:
        """The summed loss of all visits, with gradients; while training, company tells nobody of their own visits."""
        table = self.table()
        order, parts, targets = self._parts(states, visits, bias, table, table @ self.to_state)
        added = None if push is None else Added(order.place[push.rows], push.codes, push.push)
        whose = _whose(order, visits) if self.training and self.company is not None else None
        spoken = self._spoken(targets, whose)
        return block_bce(parts, order.row_of_place, self.sizes, targets, positive_weight, added, spoken)

    @torch.no_grad()
    def nll(self, states: Tensor, visits: Visits, bias: Bias = None, push: Push = None) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""
        order, parts, targets = self._parts(states, visits, bias, self.table(), self._lifted())
        added = None if push is None else Added(order.place[push.rows], push.codes, push.push)
        spoken = self._spoken(targets, None)
        return block_nll(parts, order.row_of_place, self.sizes, targets, added, spoken)[order.place]

    @torch.no_grad()
    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise, push: Push = None) -> Drawn:
        """(patient, code) pairs of one drawn visit for each patient, block by block."""
        if rule.counts is not None:
            raise UsageError("codes_per_visit='match' needs all logits at once; the blockwise head draws in blocks")
        history = states if row_of_patient is None else states[row_of_patient]
        base = torch.addmm(self.bias, states, self.table().t())
        if row_of_patient is not None:
            base = base[row_of_patient]
        if push is not None:
            base = push.added_to(base)
        listener = None
        if self.company is not None and not self.company.silent:
            listener = Listener(self.company, len(history), len(self.bias))
        numbers = None if self.counting is None else self.counting.tables(len(self.sizes))
        state = self.from_history(history)
        visits = VisitsSoFar(base, state, self.block, self.within(), self._lifted(), rule, numbers, listener)
        choosing = None if self.groups is None else group_noise(self.groups, noise)
        drawn = []
        begins = torch.tensor([0, *self.sizes]).cumsum(0)[:-1]
        for window in windows(self.sizes, self.alone[begins].tolist()):
            groups = None if self.groups is None else self.groups.inside(window.codes)
            if groups is None or choosing is None:
                drawn.append(draw_ahead(visits, window, noise))
            else:
                who, which = groups.draw(visits.logits(window, listening=False), choosing)
                visits.take(who, which + window.codes.start, speaking=False)
                drawn.append((who, which + window.codes.start))
        patients, codes = zip(*drawn, strict=True)
        return np.concatenate(patients), np.concatenate(codes)
