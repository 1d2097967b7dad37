"""Binary cross-entropy over a wide vocabulary with sparse targets, without a dense target or a stored logit.

Σ_c softplus(z_c) − Σ_{c in visit} z_c, computed in tiles of rows × codes; the gradient is formed in the same pass, so
that one tile of logits exists at a time, small enough to stay in the processor's cache between the products.

So memory does not grow with rows × codes; `python benchmarks/speed.py --share` measures the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from adapcla.models.choice_groups import Groups, choices_

#: Logits held at once; bounds the memory of a chunk at 64 MB.
CHUNK_ELEMENTS = 1 << 24
#: Logits of a tile, 1 MB, and its most rows.
TILE_ELEMENTS, TILE_ROWS = 1 << 18, 2048
#: Logits up to which 1 − chance loses no more than its last digits to rounding.
_MILD = 4.0


#: The row and the code of each present entry of some logits.
Present = tuple[Tensor, Tensor]


class SparseTargets(NamedTuple):
    """Which codes are present, as (row, code) pairs, and how often each row counts."""

    rows: Tensor  # (entries,)
    codes: Tensor  # (entries,)
    multiplicity: Tensor  # (rows,) number of visits that a row predicts
    #: Codes of which a visit holds at most one, if there are any.
    groups: Groups | None = None


def sparse_targets(
    rows: Tensor, codes: Tensor, visit_rows: Tensor, n_rows: int, groups: Groups | None = None
) -> SparseTargets:
    """Targets from pairs and the row that predicts each visit."""
    return SparseTargets(rows, codes, torch.bincount(visit_rows, minlength=n_rows).to(torch.float32), groups)


def predicting_rows(states: Tensor, targets: SparseTargets) -> tuple[Tensor, SparseTargets]:
    """The rows that predict a visit, and their targets: the last visit of a record predicts none.

    >>> states, targets = torch.eye(3), SparseTargets(torch.tensor([2]), torch.tensor([7]), torch.tensor([0, 0, 1.0]))
    >>> [x.tolist() for x in (predicting_rows(states, targets)[0], *predicting_rows(states, targets)[1][:3])]
    [[[0.0, 0.0, 1.0]], [0], [7], [1.0]]
    """
    used = targets.multiplicity.nonzero()[:, 0]
    if len(used) == len(states):
        return states, targets
    place = torch.zeros(len(states), dtype=torch.int64)
    place[used] = torch.arange(len(used))
    # `embedding` takes rows as an index would, and adds their gradients up faster.
    kept = targets._replace(rows=place[targets.rows], multiplicity=targets.multiplicity[used])
    return F.embedding(used, states), kept


def softplus_sums_(logits: Tensor) -> Tensor:
    """Σ softplus of each row (rows,), as −Σ log(1 − chance); the logits become chances in place.

    A logarithm of a product of eight is an eighth of the logarithms. 1 − chance is rounded by 3e-8 at most, in either
    direction, which is what a sum in single precision is rounded by anyway.

    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> [round(float(x), 4) for x in (softplus_sums_(logits)[0], logits[0, 0])]  # 2 ln 2, and a half
    [1.3863, 0.5]
    """
    n = logits.shape[1]
    if not (logits.numel() and float(logits.max()) < _MILD):
        sums = F.softplus(logits).sum(1)
        logits.sigmoid_()
        return sums
    absent = 1 - logits.sigmoid_()
    part = n // 8
    product = absent[:, : 4 * part] * absent[:, 4 * part : 8 * part]
    product = product[:, : 2 * part] * product[:, 2 * part :]
    product = product[:, :part] * product[:, part:]
    return -(product.log_().sum(1) + absent[:, 8 * part :].log().sum(1))


def bce_of_logits(logits: Tensor, targets: SparseTargets, positive_weight: float = 1.0) -> Tensor:
    """The summed loss of logits (rows, codes), as autograd differentiates it by itself.

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(1))
    >>> float(bce_of_logits(torch.zeros(1, 3), targets)) / 3  # ln 2 per code
    0.693...
    """
    positives = logits[targets.rows, targets.codes]
    if targets.groups is not None:
        sums = targets.groups.normalisers(logits)
        own = sums[targets.rows, targets.groups.unit_of_column()[targets.codes]] - positives
        return sums.sum(1) @ targets.multiplicity - positives.sum() + (positive_weight - 1.0) * own.sum()
    total = F.softplus(logits).sum(1) @ targets.multiplicity - positives.sum()
    return total + (positive_weight - 1.0) * F.softplus(-positives).sum()


class Tile(NamedTuple):
    """A rectangle of rows × codes and its present entries, numbered from its corner."""

    rows: slice
    codes: slice
    present: Present
    groups: Groups | None = None


def tiles(targets: SparseTargets, n_rows: int, n_codes: int) -> Iterator[Tile]:
    """Tiles that cover everything, row band by row band, and cut no choice group."""
    tall = max(1, min(n_rows, TILE_ROWS))
    wide = min(n_codes, max(64, TILE_ELEMENTS // tall))
    if n_rows <= tall and wide == n_codes:
        yield Tile(slice(0, n_rows), slice(0, n_codes), (targets.rows, targets.codes), targets.groups)
        return
    cuts = list(range(0, n_codes, wide))
    column = targets.codes // wide
    if targets.groups is not None:
        cuts = sorted({targets.groups.uncut(cut) for cut in cuts})
        column = torch.searchsorted(torch.tensor(cuts), targets.codes, right=True) - 1
    a_band = len(cuts)
    number = (targets.rows // tall) * a_band + column
    order = torch.argsort(number, stable=True)
    n_tiles = max(1, -(-n_rows // tall)) * a_band
    edges = torch.searchsorted(number[order], torch.arange(n_tiles + 1)).tolist()
    rows, codes = targets.rows[order], targets.codes[order]
    ends = list(pairwise([*cuts, n_codes]))
    for tile in range(n_tiles):
        low, (left, right) = tile // a_band * tall, ends[tile % a_band]
        mine = slice(edges[tile], edges[tile + 1])
        yield Tile(
            slice(low, min(low + tall, n_rows)), slice(left, right), (rows[mine] - low, codes[mine] - left),
            None if targets.groups is None else targets.groups.inside(slice(left, right)),
        )  # fmt: skip


def slopes_(
    logits: Tensor, present: Present, times: Tensor, positive_weight: float, groups: Groups | None = None
) -> Tensor:
    """The summed loss of logits, in double precision; they become the derivatives by them in place.

    `times` (rows,) is how often each row counts.
    """
    if groups is not None:
        return _slopes_of_groups_(logits, present, times, positive_weight, groups)
    positives = logits[present]
    total = (softplus_sums_(logits) @ times).double() - positives.sum().double()
    residual = logits.mul_(times[:, None])
    pull = torch.full_like(positives, -1.0)
    if positive_weight != 1.0:
        total += (positive_weight - 1.0) * F.softplus(-positives).sum().double()
        pull -= (positive_weight - 1.0) * torch.sigmoid(-positives)
    residual.index_put_(present, pull, accumulate=True)
    return total


def _slopes_of_groups_(
    logits: Tensor, present: Present, times: Tensor, positive_weight: float, groups: Groups
) -> Tensor:
    """The same where some codes are choices.

    A group of which a code is present counts `positive_weight` times as a whole: its loss is that code's own.
    """
    extra, positives = positive_weight - 1.0, logits[present]
    alone = torch.ones(groups.n_columns, dtype=torch.bool)
    pull = torch.full_like(positives, -positive_weight)
    for run in groups.runs:
        alone[run.columns] = False
    is_code = alone[present[1]]
    pull[is_code] = -1.0 - extra * torch.sigmoid(-positives[is_code])
    total = extra * F.softplus(-positives[is_code]).sum().double()
    total = total - positives[is_code].sum().double() - positive_weight * positives[~is_code].sum().double()
    for stretch in groups.plain():
        total += (softplus_sums_(logits[:, stretch]) @ times).double()
        logits[:, stretch].mul_(times[:, None])
    for run in groups.runs:
        view = run.of(logits)
        weight = times[:, None].expand(-1, run.n_groups)
        if extra:
            here = ((present[1] >= run.start) & (present[1] < run.stop)).nonzero()[:, 0]
            cell = present[0][here], (present[1][here] - run.start) // run.size
            weight = weight.index_put(cell, weight.new_full((len(here),), extra), accumulate=True)
        total += (choices_(view) * weight).sum().double()
        view.mul_(weight[:, :, None])
    logits.index_put_(present, pull, accumulate=True)
    return total


class Scratch:
    """Room for the logits of a tile, taken once and used by tile after tile."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._room = torch.empty(0, dtype=dtype)

    def of(self, n_rows: int, n_codes: int) -> Tensor:
        """Room for (rows, codes), with anything in it."""
        if self._room.numel() < n_rows * n_codes:
            self._room = torch.empty(n_rows * n_codes, dtype=self._room.dtype)
        return self._room[: n_rows * n_codes].view(n_rows, n_codes)


def _value_and_slopes(
    states: Tensor, weight: Tensor, bias: Tensor, targets: SparseTargets, positive_weight: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The summed loss, and its derivatives by states, weight and bias."""
    total = torch.zeros((), dtype=torch.float64)
    d_states, d_weight, d_bias = torch.empty_like(states), torch.empty_like(weight), torch.empty_like(bias)
    scratch = Scratch(states.dtype)
    for tile in tiles(targets, len(states), len(weight)):
        part, table = states[tile.rows], weight[tile.codes]
        residual = scratch.of(len(part), len(table))
        torch.addmm(bias[tile.codes], part, table.t(), out=residual)
        total += slopes_(residual, tile.present, targets.multiplicity[tile.rows], positive_weight, tile.groups)
        # The first tile of a row or a column writes what the others add to: no table is filled with zeros.
        d_states[tile.rows].addmm_(residual, table, beta=float(tile.codes.start > 0))
        d_weight[tile.codes].addmm_(residual.t(), part, beta=float(tile.rows.start > 0))
        if tile.rows.start:
            d_bias[tile.codes] += residual.sum(0)
        else:
            torch.sum(residual, 0, out=d_bias[tile.codes])
    return total, d_states, d_weight, d_bias


class _SparseBCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        total, *slopes = _value_and_slopes(states, weight, bias, *rest)
        ctx.save_for_backward(*slopes)
        return total.to(states.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (*(upstream[0] * slope for slope in ctx.saved_tensors), None, None)


def sparse_bce(
    states: Tensor, weight: Tensor, bias: Tensor, targets: SparseTargets, positive_weight: float = 1.0
) -> Tensor:
    """The summed loss of states (rows, d) against sparse targets, with gradients; logits = states · weightᵀ + bias.

    >>> targets = SparseTargets(torch.tensor([0]), torch.tensor([1]), torch.ones(1))
    >>> float(sparse_bce(torch.zeros(1, 2), torch.zeros(3, 2), torch.zeros(3), targets)) / 3  # ln 2 per code
    0.693...
    """
    states, targets = predicting_rows(states, targets)
    out: Tensor = _SparseBCE.apply(states, weight, bias, targets, positive_weight)
    return out
