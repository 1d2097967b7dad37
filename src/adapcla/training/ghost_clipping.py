"""Cut gradients of many patients at once: the norm of each patient's gradient without the gradient itself.

A linear map that saw rows x with output gradients g has the patient's gradient Σ g xᵀ, whose squared norm is
Σ (g·g')(x·x') over pairs of the patient's rows (ghost clipping, Li et al., 2022). One backward pass gives all g; a
second one, of the losses weighted by each patient's factor, gives the sum of cut gradients. Both walk the same graph,
so that dropout is the same in both. Rows are never shared between patients here: a shared start row has no owner.

Only for the visit Transformer with the independent head; the other networks are done patient by patient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.models.base import Moment, Objective, ScaffoldedLikelihood
from adapcla.models.batch import Batch, Records, pack
from adapcla.models.independent_head import IndependentHead
from adapcla.models.layers import CausalTrunk, CodeTable, gap_bucket
from adapcla.models.visit_transformer import VisitNetwork

#: Logits held at once; they are kept for two passes.
_LOGITS = 1 << 22
#: Norms are taken this much larger than computed, so that rounding never lets a gradient beyond its bound.
_ROUNDING = 1e-5


def clipped_by_norms(
    objective: Objective,
    records: Records,
    patients: NDArray[np.int64],
    moment: Moment,
    parameters: Sequence[nn.Parameter],
    clip: float,
) -> float | None:
    """Leave the sum of cut gradients in the parameters; the summed loss, or None for a network of another kind."""
    if not applies(objective, parameters):
        return None
    assert isinstance(objective, ScaffoldedLikelihood)
    sums, total = [torch.zeros_like(p) for p in parameters], 0.0
    for piece in _pieces(records, patients, len(objective.rule.bias)):
        losses, norms = losses_and_norms(objective, own_starts(records.batch(piece)), moment)
        factors = (clip / (norms * (1 + _ROUNDING))).clamp(max=1.0).to(losses.dtype)
        gradients = torch.autograd.grad((factors * losses).sum(), list(parameters), allow_unused=True)
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                sums[number].add_(gradient)
        total += float(losses.detach().sum())
    for parameter, value in zip(parameters, sums, strict=True):
        parameter.grad = value
    return total


def applies(objective: Objective, parameters: Sequence[nn.Parameter]) -> bool:
    """Whether every parameter is one whose norm is known here."""
    network = objective.modules
    if not isinstance(objective, ScaffoldedLikelihood) or type(network) is not VisitNetwork:
        return False
    if type(network.trunk) is not CausalTrunk or type(network.head) is not IndependentHead:
        return False
    known = [network.embedding, network.table, network.head, network.going_on, network.gap_head]
    inside = {id(p) for part in known if isinstance(part, nn.Module) for p in part.parameters()}
    for module in network.trunk.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            inside |= {id(p) for p in module.parameters()}
    names = {name for name, _ in network.embedding.named_parameters(recurse=False)} | {
        name for name, _ in network.embedding.named_children()
    }
    expected = {"start", "place", "attributes", "norm"} | ({"gap"} if network.embedding.gap is not None else set())
    return names == expected and inside == {id(p) for p in parameters}


def own_starts(batch: Batch) -> Batch:
    """The batch with a start row for each patient, so that no row belongs to two."""
    ends = torch.cat([batch.offsets[1:], torch.tensor([len(batch.codes)])])
    attributes = batch.start_attributes[batch.start_of_patient].numpy()
    # Equal patients share a start row; a number of their own makes all unequal, in their order.
    numbered = np.concatenate([np.arange(batch.n_patients)[:, None], attributes], axis=1)
    own = pack(
        batch.codes.numpy().astype(np.int32),
        (ends - batch.offsets).numpy(),
        torch.bincount(batch.patient_of_visit, minlength=batch.n_patients).numpy(),
        numbered,
        batch.gap.numpy(),
    )
    return replace(own, start_attributes=own.start_attributes[:, 1:])


@dataclass(frozen=True)
class _Call:
    """One use of a module: its input and output, both in the graph."""

    module: nn.Module
    input: Tensor
    output: Tensor


@contextmanager
def _record_calls(root: nn.Module) -> Iterator[list[_Call]]:
    """The calls of linear maps and norms inside the block."""
    calls: list[_Call] = []

    def tap(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        calls.append(_Call(module, inputs[0], output))

    parts = [m for m in root.modules() if isinstance(m, nn.Linear | nn.LayerNorm)]
    handles = [part.register_forward_hook(tap) for part in parts]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class _Seen:
    """A forward pass: losses, and where gradients are asked for."""

    losses: Tensor  # (patients,)
    history: Tensor  # (visits, d) the state that predicts each visit; no two visits share one
    logits: Tensor  # (visits, codes)
    #: Uses of each module with the state rows it was used on; a module that was used twice has two.
    uses: list[list[tuple[_Call, Tensor]]]
    #: The norm of start rows and of visit rows: what goes into it is the sum of what is looked up.
    of_starts: _Call
    of_visits: _Call


def _forward(objective: ScaffoldedLikelihood, batch: Batch, moment: Moment) -> _Seen:
    """The network's own forward pass, with every use of a parameter noted."""
    network: Any = objective.network
    n, every_visit = batch.n_patients, torch.arange(batch.n_visits)
    with _record_calls(network.embedding) as at_starts:
        starts = network.embedding.starts(batch.start_attributes)
    with _record_calls(network.embedding) as at_visits:
        visits = network.embedding.visits(network.table(), batch.codes, batch.offsets, batch.position, batch.gap)
    with _record_calls(network.trunk) as at_rows:
        states = network.trunk(torch.cat([starts, visits]), batch)
    history = states[batch.row_before]
    logits = torch.addmm(_bias(objective, moment), history, network.head.table().t())
    each = _code_losses(logits, batch, objective.rule.positive_weight)
    with _record_calls(network.going_on) as at_ends:
        each = each + network._going_on_nll(states, batch)
    at_gaps: list[_Call] = []
    if network.gap_head is not None:
        with _record_calls(network.gap_head) as at_gaps:
            each = each + network._gap_nll(states, batch)
    uses = [[(call, torch.arange(n + batch.n_visits))] for call in at_rows]
    uses += [[(at_starts[0], torch.arange(n)), (at_visits[0], n + every_visit)]]
    uses += [[(call, n + every_visit)] for call in at_ends]
    uses += [[(call, batch.row_before[(batch.position > 0).nonzero()[:, 0]])] for call in at_gaps]
    losses = torch.zeros(n).index_add(0, batch.patient_of_visit, each)
    return _Seen(losses, history, logits, uses, at_starts[0], at_visits[0])


def losses_and_norms(objective: ScaffoldedLikelihood, batch: Batch, moment: Moment) -> tuple[Tensor, Tensor]:
    """(patients,) losses in the graph, and the norm of each one's gradient; `batch` with own start rows."""
    network: Any = objective.network
    seen = _forward(objective, batch, moment)
    outputs = [call.output for use in seen.uses for call, _ in use]
    tensors = [seen.logits, seen.of_starts.input, seen.of_visits.input, *outputs]
    gradients = torch.autograd.grad(seen.losses.sum(), tensors, retain_graph=True, allow_unused=True)
    # Where nobody has a second visit, nothing asks for gaps.
    known = [torch.zeros_like(w) if g is None else g for w, g in zip(tensors, gradients, strict=True)]
    squares, left = _Squares(batch), iter(known[3:])
    for use in seen.uses:
        squares.add_uses([(call, next(left), rows) for call, rows in use])
    squares.output(seen.history.detach(), known[0], network.head.table, batch)
    squares.add_embeddings(known[1], known[2], network.embedding, network.table, batch)
    return seen.losses, squares.total.sqrt()


def _bias(objective: ScaffoldedLikelihood, moment: Moment) -> Tensor:
    """The output bias with the scaffold of this moment."""
    network: Any = objective.network
    weight = objective.weight(moment)
    bias: Tensor = network.head.bias
    return bias + weight * objective.rule.bias if weight else bias


def _code_losses(logits: Tensor, batch: Batch, positive_weight: float) -> Tensor:
    """(visits,) losses of the codes: what `sparse_bce` sums, visit by visit."""
    present = logits[batch.visit_of_entry, batch.codes]
    pull = -present + (positive_weight - 1.0) * F.softplus(-present)
    return F.softplus(logits).sum(1).index_add(0, batch.visit_of_entry, pull)


class _Squares:
    """Squared norms of gradients, patient by patient, added up over parameters in double precision."""

    def __init__(self, batch: Batch) -> None:
        self.n, self.groups = batch.n_patients, _rows_by_length(batch)
        self.patient_of_row = torch.cat([torch.arange(self.n), batch.patient_of_visit])
        self.total = torch.zeros(self.n, dtype=torch.float64)

    def add_uses(self, uses: list[tuple[_Call, Tensor, Tensor]]) -> None:
        """A module, used on some state rows each time: (call, gradient of its output, rows)."""
        module = uses[0][0].module
        inputs = self._spread([(call.input.detach(), rows) for call, _, rows in uses])
        gradients = self._spread([(gradient, rows) for _, gradient, rows in uses])
        if isinstance(module, nn.LayerNorm):
            straight = F.layer_norm(inputs, module.normalized_shape, eps=module.eps)
            self.total += self._sum_rows(gradients * straight).square().sum(1)
        else:
            self._outer(inputs, gradients)
        self.total += self._sum_rows(gradients).square().sum(1)

    def output(self, history: Tensor, gradients: Tensor, table: CodeTable, batch: Batch) -> None:
        """The output table and its bias, from the gradients of the logits (visits, codes)."""
        seen = self._spread([(history, batch.row_before)])
        spread = self._spread([(gradients, batch.row_before)])
        self.total += self._sum_rows(spread).square().sum(1)
        self._outer(seen, spread)

    def add_embeddings(self, starts: Tensor, visits: Tensor, embedding: Any, table: CodeTable, batch: Batch) -> None:
        """Start vector, attributes, places, gaps and the code table, from the gradients of rows before their norm."""
        self.total += starts.double().square().sum(1) * (1 + len(embedding.attributes))
        # A patient is at each place once, so that there is nothing to add up before squaring.
        self.total.index_add_(0, batch.patient_of_visit, visits.double().square().sum(1))
        if embedding.gap is not None:
            self._cells(batch.patient_of_visit, gap_bucket(batch.gap), visits)
        owner, rows = batch.patient_of_visit[batch.visit_of_entry], visits[batch.visit_of_entry]
        self._cells(owner, batch.codes, rows)

    def _spread(self, pieces: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Values put to their state rows, zero elsewhere."""
        out = torch.zeros(len(self.patient_of_row), pieces[0][0].shape[1])
        for values, rows in pieces:
            out[rows] = values
        return out

    def _sum_rows(self, rows: Tensor) -> Tensor:
        """(patients, …) sums over each patient's rows."""
        out = torch.zeros(self.n, rows.shape[1], dtype=torch.float64)
        return out.index_add_(0, self.patient_of_row, rows.double())

    def _outer(self, inputs: Tensor, gradients: Tensor) -> None:
        """The squared norm of Σ g xᵀ over each patient's rows."""
        for rows in self.groups:
            x, g = inputs[rows].double(), gradients[rows].double()  # (patients, rows, …)
            pairs = (x @ x.transpose(1, 2)) * (g @ g.transpose(1, 2))
            self.total[rows[:, 0]] += pairs.sum((1, 2))

    def _cells(self, patients: Tensor, columns: Tensor, rows: Tensor) -> None:
        """The squared norm of a table's gradient: rows that a patient gives to the same place of it add up first."""
        width = int(columns.max()) + 1 if len(columns) else 1
        cells, where = torch.unique(patients * width + columns, return_inverse=True)
        sums = torch.zeros(len(cells), rows.shape[1], dtype=torch.float64).index_add_(0, where, rows.double())
        self.total.index_add_(0, cells // width, sums.square().sum(1))


def _rows_by_length(batch: Batch) -> list[Tensor]:
    """State rows of patients with equally many visits, (patients, visits + 1) for each number of visits."""
    lengths = torch.bincount(batch.patient_of_visit, minlength=batch.n_patients)
    first = batch.n_starts + torch.cumsum(lengths, 0) - lengths
    groups = []
    for length in torch.unique(lengths).tolist():
        members = (lengths == length).nonzero()
        groups.append(torch.cat([members, first[members] + torch.arange(length)], dim=1))
    return groups


def _pieces(records: Records, patients: NDArray[np.int64], n_codes: int) -> Iterator[NDArray[np.int64]]:
    """The patients in pieces whose logits fit."""
    visits = np.minimum(records.cohort.visits_per_patient[patients], records.context)
    number = (np.cumsum(visits) - 1) // max(1, _LOGITS // n_codes)
    for piece in np.unique(number):
        yield patients[number == piece]
