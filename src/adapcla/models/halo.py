"""HALO's head (Theodorou, Xiao and Sun, 2023): the codes of a visit one after another, each knowing those before it.

Two masked linear layers over [history, codes]: hidden unit k sees the history and the codes up to k, the logit of code
j sees the history units and the hidden units before j, so that code j knows exactly the history and the codes before
it. Codes come in rank order, most frequent first.

The factorisation is the reference's; the arithmetic is not. A visit is sparse, so the first layer's product is a
gather. The second layer's weights are kept and multiplied as triangular blocks. A visit is drawn in one sweep: within
a block of codes only what a drawn code changes is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.errors import AdapclaError, UsageError
from adapcla.models.base import Bias, DrawRule, Passage, Rows, Visit, Visits
from adapcla.models.draws import Noise
from adapcla.models.losses import SparseTargets, bce_of_logits


class TriangularBlocks(nn.Module):
    """A lower-triangular matrix (size, size); with `strict` the diagonal itself is zero as well.

    Rectangles are stored (inputs before, block), so that the weights of one input are contiguous and a sparse input is
    a gather of rows.
    """

    def __init__(self, size: int, block: int, strict: bool, bound: float) -> None:
        super().__init__()
        self.size, self.strict = size, strict
        self.edges = [*range(0, size, block), size]
        spans = list(pairwise(self.edges))
        self.before = nn.ParameterList(nn.Parameter(_uniform(low, high - low, bound)) for low, high in spans)
        self.corner = nn.ParameterList(nn.Parameter(_uniform(high - low, high - low, bound)) for low, high in spans)

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(number, first output, end of outputs) of each block."""
        for number, (low, high) in enumerate(pairwise(self.edges)):
            yield number, low, high

    def square(self, number: int) -> Tensor:
        """The diagonal block (inputs, outputs), its corner cut."""
        return torch.triu(self.corner[number], diagonal=1 if self.strict else 0)

    def gather(self, codes: Tensor, visit_of_entry: Tensor, n_visits: int) -> Tensor:
        """The product with sparse 0/1 rows (visits, size): sums of the rows of the present inputs.

        `visit_of_entry` ascends, and the codes of a visit ascend.
        """
        out = []
        for number, low, high in self.spans():
            total = torch.zeros(n_visits, high - low)
            for table, first, end in ((self.before[number], 0, low), (self.square(number), low, high)):
                here = (codes >= first) & (codes < end)
                offsets = torch.searchsorted(visit_of_entry[here], torch.arange(n_visits))
                total = total + F.embedding_bag(codes[here] - first, table, offsets, mode="sum")
            out.append(total)
        return torch.cat(out, dim=1)

    @torch.no_grad()
    def dense(self) -> Tensor:
        """The whole matrix (outputs, inputs), zeros included; for small sizes and for tests."""
        whole = torch.zeros(self.size, self.size)
        for number, low, high in self.spans():
            whole[low:high, :low] = self.before[number].t()
            whole[low:high, low:high] = self.square(number).t()
        return whole


def _uniform(rows: int, columns: int, bound: float) -> Tensor:
    return torch.empty(rows, columns).uniform_(-bound, bound)


#: Codes of a block: small enough that the diagonal squares are cheap, large enough for fast products.
BLOCK = 256
#: The logit of a code that must come.
_SURE = 1e4
#: Random numbers asked for at once while drawing.
_WAITS = 16


class HaloHead(nn.Module):
    """Within-visit autoregression over all codes, sparse and incremental."""

    def __init__(self, n_codes: int, width: int, initial_logits: Tensor, block: int = BLOCK) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width + n_codes)
        self.history = nn.Linear(width, width)  # used lower-triangular, as the reference masks it
        self.history_to_hidden = nn.Linear(width, n_codes)
        self.history_to_code = nn.Linear(width, n_codes, bias=False)
        for layer in (self.history, self.history_to_hidden, self.history_to_code):
            nn.init.uniform_(layer.weight, -bound, bound)
        self.codes_to_hidden = TriangularBlocks(n_codes, block, strict=False, bound=bound)
        self.hidden_to_code = TriangularBlocks(n_codes, block, strict=True, bound=bound)
        self.bias = nn.Parameter(initial_logits.clone())

    def _history_units(self, history: Tensor) -> Tensor:
        """(visits, width) hidden units that see the history alone."""
        return F.relu(F.linear(history, torch.tril(self.history.weight), self.history.bias))

    def _hidden_units(self, history: Tensor, visits: Visits) -> Tensor:
        """(visits, codes) hidden units, teacher-forced."""
        order = torch.argsort(visits.visit_of_entry * self.bias.shape[0] + visits.codes)
        codes, visit_of_entry = visits.codes[order], visits.visit_of_entry[order]
        seen = self.codes_to_hidden.gather(codes, visit_of_entry, len(history))
        return F.relu(self.history_to_hidden(history) + seen)

    def teacher_forced_logits(self, states: Tensor, visits: Visits) -> Tensor:
        """Logits (visits, codes) of every code given the true codes before it."""
        history = states[visits.row_before]
        hidden, triangle = self._hidden_units(history, visits), self.hidden_to_code
        base = torch.addmm(self.bias, self._history_units(history), self.history_to_code.weight.t())
        # A part of a split has a cheap gradient; that of a slice is as wide as the whole.
        parts = [whole.split([high - low for _, low, high in triangle.spans()], dim=1) for whole in (base, hidden)]
        columns = []
        for (number, low, _), start, own in zip(triangle.spans(), *parts, strict=True):
            earlier = torch.addmm(start, hidden[:, :low], triangle.before[number])
            columns.append(torch.addmm(earlier, own, triangle.square(number)))
        return torch.cat(columns, dim=1)

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1) -> Tensor:
        """The summed loss of all visits, with gradients."""
        logits = self.teacher_forced_logits(states, visits)
        targets = SparseTargets(visits.visit_of_entry, visits.codes, torch.ones(len(logits)))
        return bce_of_logits(logits if bias is None else logits + bias, targets, positive_weight)

    @torch.no_grad()
    def nll(self, states: Tensor, visits: Visits, bias: Bias = None) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""
        logits = self.teacher_forced_logits(states, visits)
        if bias is not None:
            logits += bias
        out = F.softplus(logits).sum(1).double()
        return out.index_add_(0, visits.visit_of_entry, -logits[visits.visit_of_entry, visits.codes].double())

    @torch.no_grad()
    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise) -> Visit:
        """One visit of each patient, in one sweep over the codes."""
        if rule.counts is not None:
            raise UsageError("codes_per_visit='match' needs all logits at once; this head draws code by code")
        sums = self.history_to_hidden(states)
        logits = torch.addmm(self.bias, self._history_units(states), self.history_to_code.weight.t())
        if row_of_patient is not None:
            sums, logits = sums[row_of_patient], logits[row_of_patient]
        waits = _Waits(noise)
        hazard = None if rule.passage is None else np.zeros((len(logits), len(rule.passage.codes)))
        hidden = torch.empty_like(sums)
        patients: list[NDArray[np.int64]] = []
        codes: list[NDArray[np.int64]] = []
        for number, low, high in self.hidden_to_code.spans():
            if patients and low:
                who, which = np.concatenate(patients), np.concatenate(codes)
                table = self.codes_to_hidden.before[number]
                sums[:, low:high].index_add_(0, torch.from_numpy(who), table[torch.from_numpy(which)])
            here = torch.addmm(logits[:, low:high], hidden[:, :low], self.hidden_to_code.before[number])
            who, which = self._draw_block(number, sums[:, low:high], here, rule, waits, low, hazard)
            hidden[:, low:high] = F.relu(sums[:, low:high])
            patients.append(who)
            codes.append(which + low)
        who, which = np.concatenate(patients), np.concatenate(codes)
        in_order = np.lexsort((which, who))
        return Visit(who[in_order], which[in_order], hazard)

    def _draw_block(
        self,
        number: int,
        sums: Tensor,
        base: Tensor,
        rule: DrawRule,
        waits: _Waits,
        low: int,
        hazards: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the codes of one block; `sums` are the units before their relu and take in what is drawn.

        The first code that comes out is the first point of a unit Poisson process on the stacked hazards. It changes
        the units from its own on, so the codes after it are looked at again, and the process starts anew behind it.
        """
        to_hidden, to_code = self.codes_to_hidden.square(number), self.hidden_to_code.square(number)
        size = base.shape[1]
        place = torch.arange(size)
        active = torch.arange(base.shape[0])
        behind = torch.full((len(active),), -1)
        who, which = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        while len(active):
            products = torch.addmm(base[active], F.relu(sums[active]), to_code)
            logits = rule.apply(products, slice(low, low + size))
            if rule.passage is not None and hazards is not None:
                self._pass(logits, rule.passage, hazards, active, behind, low)
            hazard = F.softplus(logits).double()
            line = torch.cumsum(torch.where(place > behind[:, None], hazard, 0.0), dim=1)
            left = torch.from_numpy(waits.left[active.numpy()])
            if not bool(torch.isfinite(line[:, -1]).all()):
                raise AdapclaError("the network gave logits that are not finite: load another checkpoint")
            hit = line[:, -1] > left
            waits.left[active[~hit].numpy()] -= line[~hit, -1].numpy()
            active = active[hit]
            code = torch.searchsorted(line[hit], left[hit][:, None], right=True)[:, 0]
            sums.index_add_(0, active, to_hidden[code])
            waits.renew(active.numpy())
            who.append(active.numpy())
            which.append(code.numpy())
            behind = code
        return np.concatenate(who), np.concatenate(which)

    @staticmethod
    def _pass(
        logits: Tensor, passage: Passage, hazards: NDArray[np.float64], active: Tensor, behind: Tensor, low: int
    ) -> None:
        """Note the hazards of codes of this block that are still ahead, and make them come or not, in place."""
        rows = active.numpy()
        here = passage.select(rows)
        forbidden, comes = torch.from_numpy(here.must_not_come), torch.from_numpy(here.comes)
        for k, column in enumerate((passage.codes - low).tolist()):
            if 0 <= column < logits.shape[1]:
                ahead = (behind < column).numpy()
                hazards[rows[ahead], k] = torch.sigmoid(logits[:, column].double()).numpy()[ahead]
                logits[forbidden[:, k], column] = -torch.inf
                logits[comes[:, k], column] = _SURE


class _Waits:
    """How much hazard each patient still passes before the next code comes out."""

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self.used = np.zeros(len(noise.patients), dtype=np.int64)
        self.numbers = np.zeros((len(noise.patients), 0))
        self.left = np.zeros(len(noise.patients))
        self.renew(np.arange(len(noise.patients)))

    def renew(self, rows: NDArray[np.int64]) -> None:
        """A fresh exponential wait for these patients."""
        if len(rows) and self.used[rows].max() >= self.numbers.shape[1]:
            more = self.noise.uniform(_WAITS, channel=64 + self.numbers.shape[1] // _WAITS)
            self.numbers = np.concatenate([self.numbers, -np.log(more)], axis=1)
        self.left[rows] = self.numbers[rows, self.used[rows]]
        self.used[rows] += 1
