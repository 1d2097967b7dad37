"""Bidirectional LSTM classifiers over visits, many trained side by side as one stacked model.

The classifiers of a stack share nothing: each has its own weights, patients, batches, Adam state and early stopping,
all keyed by its own number. Stacking only turns many small products into few large ones, so a classifier comes out the
same, up to rounding, whether it is trained alone or among others.

torch is imported when a function is called, never when this module is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adapcla.metrics.packing import NOBODY, FlatVisits, Packed, pack
from adapcla.metrics.protocols import Tasks
from adapcla.records.runs import ranges, starts_of
from adapcla.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, "Tensor"]


@dataclass(frozen=True)
class Settings:
    """Size and training of the classifiers; the network and the epochs are those of HALO's evaluation."""

    embedding: int = 64
    hidden: int = 32
    layers: int = 2
    epochs: int = 25
    #: Epochs without a better validation loss after which a classifier stops.
    patience: int = 3
    batch: int = 250
    #: Steps of an epoch for training sets too small for as many batches: 5,000 patients, the paper's number.
    fewest_steps: int = 20
    rate: float = 3e-3
    #: Standard deviation of the code embeddings before training.
    spread: float = 0.1


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Trained classifiers: weights with one leading row a classifier, and where each code's embedding is."""

    weights: Weights
    #: The row of each code of the vocabulary in the embedding tables, −1 for codes never seen in training.
    new_position: NDArray[np.int64]
    settings: Settings
    #: The epoch whose weights were kept, and its validation loss, one a classifier.
    epochs: NDArray[np.int64]
    losses: NDArray[np.float64]


def fit(
    train: Tasks,
    valid: Tasks,
    seed: int,
    settings: Settings = Settings(),
    numbers: Sequence[int] | None = None,
    report: Callable[[int], None] = lambda epoch: None,
) -> Classifiers:
    """Classifiers trained on `train`, each at the epoch with the best loss on `valid`.

    `numbers` name the classifiers for their random streams (0, 1, … unless given); `report` is told each epoch.
    Every classifier takes the same number of steps an epoch: one pass over the largest training set of the stack, at
    least `settings.fewest_steps`.
    """
    import torch

    ids = np.arange(len(train.rows)) if numbers is None else np.asarray(numbers)
    seen = train.inputs.visit_counts > 0
    new_position = np.where(seen, np.cumsum(seen) - 1, -1)
    flat = FlatVisits.of(train.inputs, new_position)
    weights = _initial(int(seen.sum()), train.targets, seed, ids, settings)
    best = {name: tensor.clone() for name, tensor in weights.items()}
    losses, epochs = np.full(len(ids), np.inf), np.full(len(ids), -1)
    alive = np.arange(len(ids))
    adam = _optimiser(weights, settings)
    n_steps = max(settings.fewest_steps, -(-max(len(rows) for rows in train.rows) // settings.batch))
    for epoch in range(settings.epochs):
        some = train.part(alive.tolist())
        for rows, targets in _batches(some, ids[alive], seed, epoch, n_steps, settings.batch):
            adam.zero_grad(set_to_none=True)
            _losses(weights, flat, rows, targets).sum().backward()
            adam.step()
        with torch.no_grad():
            found = _mean_losses(weights, flat, valid.part(alive.tolist()))
        better = found < losses[alive]
        losses[alive[better]], epochs[alive[better]] = found[better], epoch
        for name, tensor in weights.items():
            best[name][alive[better]] = tensor.detach()[better]
        report(epoch)
        going = epoch - epochs[alive] < settings.patience
        if not going.any():
            break
        if not going.all():
            weights, adam = _without(weights, adam, going, settings)
            alive = alive[going]
    return Classifiers(best, new_position, settings, epochs, losses)


def predict(classifiers: Classifiers, tasks: Tasks, at_once: int = 2_000) -> list[NDArray[np.float64]]:
    """The probability of each output for the patients of each classifier's task, patients × outputs."""
    import torch

    flat = FlatVisits.of(tasks.inputs, classifiers.new_position)
    with torch.no_grad():
        logits = [
            _logits(classifiers.weights, flat, rows).double().sigmoid().numpy() for rows in _chunks(tasks.rows, at_once)
        ]
    together = np.concatenate(logits, axis=1)
    return [together[i, : len(rows)] for i, rows in enumerate(tasks.rows)]


def _initial(
    n_codes: int, targets: Sequence[NDArray[np.uint8]], seed: int, ids: NDArray[np.int64], settings: Settings
) -> Weights:
    """Weights before training, each classifier's from its own stream; every output starts at its label's prevalence."""
    import torch

    hidden, n_outputs = settings.hidden, targets[0].shape[1]
    bound = 1 / np.sqrt(hidden)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(settings.layers):
        width = settings.embedding if layer == 0 else 2 * hidden
        shapes[f"input{layer}"] = (2, width, 4 * hidden)
        shapes[f"state{layer}"] = (2, hidden, 4 * hidden)
        shapes[f"bias{layer}"] = (2, 1, 4 * hidden)
    shapes["output"] = (2 * hidden, n_outputs)
    made: dict[str, list[NDArray[np.float32]]] = {name: [] for name in ("codes", *shapes, "output_bias")}
    for number, target in zip(ids, targets, strict=True):
        random = generator(seed, "tstr-weights", int(number))
        made["codes"].append(random.standard_normal((n_codes, settings.embedding), np.float32) * settings.spread)
        for name, shape in shapes.items():
            made[name].append(random.uniform(-bound, bound, shape).astype(np.float32))
        # Half a patient more on either side keeps the logit of an absent label finite.
        odds = (target.sum(axis=0) + 0.5) / (len(target) - target.sum(axis=0, dtype=float) + 0.5)
        made["output_bias"].append(np.log(odds).astype(np.float32)[None, :])
    return {name: torch.from_numpy(np.stack(arrays)).requires_grad_() for name, arrays in made.items()}


def _optimiser(weights: Weights, settings: Settings) -> Any:
    """Adam over the stack; the classifiers' gradients do not mix, so neither do their steps."""
    import torch

    return torch.optim.Adam(list(weights.values()), lr=settings.rate, fused=True)


def _without(weights: Weights, adam: Any, going: NDArray[np.bool_], settings: Settings) -> tuple[Weights, Any]:
    """The stack without the classifiers that have stopped, with the Adam state of those that go on."""
    left = {name: tensor.detach()[going].requires_grad_() for name, tensor in weights.items()}
    fresh = _optimiser(left, settings)
    for name, tensor in weights.items():
        state = adam.state[tensor]
        fresh.state[left[name]] = {key: value[going] if value.dim() else value.clone() for key, value in state.items()}
    return left, fresh


def _batches(
    tasks: Tasks, ids: NDArray[np.int64], seed: int, epoch: int, n_steps: int, size: int
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Patients and targets of each step of an epoch; a set that is used up starts over in a new order."""
    import torch

    places = []
    for number, rows in zip(ids, tasks.rows, strict=True):
        random = generator(seed, "tstr-order", int(number), epoch)
        rounds = -(-n_steps * size // len(rows))
        places.append(np.concatenate([random.permutation(len(rows)) for _ in range(rounds)]))
    for start in range(0, n_steps * size, size):
        taken = [place[start : start + size] for place in places]
        rows = np.stack([row[take] for row, take in zip(tasks.rows, taken, strict=True)])
        targets = np.stack([target[take] for target, take in zip(tasks.targets, taken, strict=True)])
        yield rows, torch.from_numpy(targets.astype(np.float32))


def _chunks(rows: Sequence[NDArray[np.int64]], at_once: int) -> Iterator[NDArray[np.int64]]:
    """Tables of positions, one row a classifier, that together hold all; short rows are filled with nobody."""
    table = np.full((len(rows), max(len(row) for row in rows)), NOBODY, dtype=np.int64)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    width = max(1, at_once // len(rows))
    for start in range(0, table.shape[1], width):
        yield table[:, start : start + width]


def _losses(weights: Weights, flat: FlatVisits, rows: NDArray[np.int64], targets: Tensor) -> Tensor:
    """Mean cross-entropy of each classifier on its batch."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    logits = _logits(weights, flat, rows)
    return binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(dim=(1, 2))


def _mean_losses(weights: Weights, flat: FlatVisits, tasks: Tasks, at_once: int = 10_000) -> NDArray[np.float64]:
    """Mean cross-entropy of each classifier on its whole task."""
    import torch

    logits = torch.cat([_logits(weights, flat, rows) for rows in _chunks(tasks.rows, at_once)], dim=1)
    out = np.empty(len(tasks.rows))
    for i, target in enumerate(tasks.targets):
        own = logits[i, : len(target)].double()
        truth = torch.from_numpy(target.astype(np.float64))
        out[i] = float(torch.nn.functional.binary_cross_entropy_with_logits(own, truth))
    return out


def _logits(weights: Weights, flat: FlatVisits, rows: NDArray[np.int64]) -> Tensor:
    """Logits of each classifier for its row of patients, M × B × outputs."""
    import torch

    table = weights["codes"]  # (M, V, E)
    n_models = len(table)
    packed = pack(flat, rows, table.shape[1])
    visits = torch.nn.functional.embedding_bag(
        torch.from_numpy(packed.codes),
        table.flatten(0, 1),
        torch.from_numpy(packed.slot_starts),
        mode="sum",
        include_last_offset=True,
    ).unflatten(0, (n_models, -1))  # (M, N, E)
    layer = 0
    while f"input{layer}" in weights:
        forward, backward = _both_directions(weights, layer, visits, packed)  # (M, N, H) each
        visits = torch.cat([forward, _at(backward, packed.mirror)], dim=2)
        layer += 1
    state = torch.cat([_at(forward, packed.last), _at(backward, packed.last)], dim=2)  # (M, B, 2H)
    return torch.baddbmm(weights["output_bias"], state, weights["output"])


def _both_directions(weights: Weights, layer: int, visits: Tensor, packed: Packed) -> tuple[Tensor, Tensor]:
    """Outputs of one LSTM layer read forwards and backwards, each in its own order of slots."""
    import torch

    both = torch.cat([visits, _at(visits, packed.mirror)])  # (2M, N, D)
    inward, state, bias = (
        weights[f"{name}{layer}"].transpose(0, 1).flatten(0, 1) for name in ("input", "state", "bias")
    )
    gates = torch.baddbmm(bias, both, inward)  # (2M, N, 4H)
    out = _recurrence().apply(gates, state, packed.widths)
    forward, backward = out.chunk(2)
    return forward, backward


def _at(values: Tensor, slots: NDArray[np.int64]) -> Tensor:
    """The rows of `values` (M × N × D) at each classifier's slots (M × K), as M × K × D."""
    import torch

    place = slots + (np.arange(len(slots)) * values.shape[1])[:, None]
    chosen = values.flatten(0, 1).index_select(0, torch.from_numpy(place.ravel()))
    return chosen.unflatten(0, slots.shape)


def _tanh(values: Tensor) -> Tensor:
    """The hyperbolic tangent by way of the sigmoid, which is several times faster on a processor."""
    return (values * 2).sigmoid_().mul_(2).sub_(1)


def _run(drive: Tensor, state: Tensor, starts: list[int]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Outputs of all slots, and for each time step its gates (input, forget, output, candidate) and cells."""
    import torch

    hidden = state.shape[1]
    out = drive.new_empty(*drive.shape[:2], hidden)
    steps: list[tuple[Tensor, Tensor]] = []
    for t in range(len(starts) - 1):
        width = starts[t + 1] - starts[t]
        gate = drive[:, starts[t] : starts[t + 1]]
        gate = torch.baddbmm(gate, out[:, starts[t - 1] : starts[t - 1] + width], state) if t else gate.clone()
        # One sigmoid for all four gates; the candidate's tanh is 2 sigmoid(2x) − 1.
        gate[..., 3 * hidden :].mul_(2)
        gate.sigmoid_()
        gate[..., 3 * hidden :].mul_(2).sub_(1)
        enter, forget, leave, candidate = gate.chunk(4, dim=2)
        cell = enter * candidate
        if t:
            cell.addcmul_(forget, steps[-1][1][:, :width])
        torch.mul(leave, _tanh(cell), out=out[:, starts[t] : starts[t + 1]])
        steps.append((gate, cell))
    return out, steps


def _run_back(upstream: Tensor, state: Tensor, steps: list[tuple[Tensor, Tensor]], starts: list[int]) -> Tensor:
    """The gradient with respect to what drives the gates of each slot, from that of the outputs."""
    import torch

    hidden = state.shape[1]
    slope = upstream.new_empty(*upstream.shape[:2], 4 * hidden)
    later: tuple[Tensor, Tensor] | None = None
    for t in reversed(range(len(steps))):
        gate, cell = steps[t]
        enter, forget, leave, candidate = gate.chunk(4, dim=2)
        squashed = _tanh(cell)
        by_out = upstream[:, starts[t] : starts[t + 1]].clone()
        if later is not None:
            by_out[:, : later[0].shape[1]].baddbmm_(later[0], state.transpose(1, 2))
        by_cell = torch.addcmul(by_out, by_out * squashed, squashed, value=-1).mul_(leave)
        if later is not None:
            by_cell[:, : later[1].shape[1]].add_(later[1])
        part = torch.cat([by_cell, by_cell, by_out, by_cell], dim=2)
        part[..., : 3 * hidden].mul_(torch.addcmul(gate, gate, gate, value=-1)[..., : 3 * hidden])
        part[..., :hidden].mul_(candidate)
        part[..., hidden : 2 * hidden].mul_(steps[t - 1][1][:, : gate.shape[1]] if t else 0)
        part[..., 2 * hidden : 3 * hidden].mul_(squashed)
        part[..., 3 * hidden :].mul_((candidate * candidate).neg_().add_(1)).mul_(enter)
        slope[:, starts[t] : starts[t + 1]] = part
        later = part, by_cell * forget
    return slope


@cache
def _recurrence() -> Any:
    """The recurrent part of a stack of LSTMs over packed slots, with its own backward pass.

    The gradient of the recurrent weights is one product over all slots instead of one a time step, which is what makes
    short records cheap.
    """
    import torch

    class Recurrence(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, drive: Tensor, state: Tensor, widths: tuple[int, ...]) -> Tensor:
            ctx.starts = starts_of(np.array(widths)).tolist()
            out, ctx.steps = _run(drive, state, ctx.starts)
            ctx.save_for_backward(state, out)
            return out

        @staticmethod
        def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
            (state, out), starts = ctx.saved_tensors, np.array(ctx.starts)
            slope = _run_back(upstream[0], state, ctx.steps, ctx.starts)
            # The slot before (t, rank) is (t − 1, rank).
            before = torch.from_numpy(ranges(starts[:-2], starts[:-2] + np.diff(starts)[1:]))
            return slope, out[:, before].transpose(1, 2) @ slope[:, starts[1] :], None

    return Recurrence
