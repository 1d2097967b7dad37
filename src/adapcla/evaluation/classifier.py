"""Classifiers of records: the network of HALO's evaluation, trained on synthetic patients and evaluated on real ones.

A visit is the sum of the embeddings of its codes. torch's LSTM, two bidirectional layers, reads the visits; its last
forward and its last backward state go through one linear layer to the logits. A classifier shares nothing with others:
it has its own weights, patients, batches, optimiser and early stopping, all keyed by its own number, so that it comes
out the same whether it is trained alone or among others.

Below them stand the measures of predictions, each for many weightings of the patients at once, as the bootstrap needs.
torch is imported when a function is called, never when this module is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.seeds import random_stream

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Truth = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ExampleSet:
    """Examples of several independent classifiers: for each the patients of `inputs`, and what is true of them."""

    inputs: Cohort
    #: Positions in `inputs`, one array per classifier.
    rows: tuple[NDArray[np.int64], ...]
    #: 0 or 1, patients × outputs, one array per classifier.
    targets: tuple[NDArray[np.uint8], ...]

    def part(self, classifiers: list[int]) -> ExampleSet:
        """The examples of some of the classifiers."""
        return replace(
            self,
            rows=tuple(self.rows[i] for i in classifiers),
            targets=tuple(self.targets[i] for i in classifiers),
        )


@dataclass(frozen=True)
class ClassifierSettings:
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
class Classifier:
    """A trained network, the epoch whose weights it has, and how many epochs it was trained for."""

    network: ModuleDict
    epoch: int
    n_epochs: int


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Trained classifiers, and where the embedding of each code is."""

    each: tuple[Classifier, ...]
    #: The row of each code of the vocabulary in the embedding tables, −1 for codes never seen in training.
    new_position: NDArray[np.int64]


def fit_classifiers(
    train: ExampleSet,
    valid: ExampleSet,
    seed: int,
    settings: ClassifierSettings = ClassifierSettings(),
    numbers: Sequence[int] | None = None,
) -> Classifiers:
    """Classifiers trained on `train`, each at the epoch with the best loss on `valid`.

    `numbers` name the classifiers for their random streams (0, 1, … unless given). Every classifier takes the same
    number of steps in an epoch: one pass over the largest of the training sets, at least `settings.fewest_steps`.
    """
    import torch

    seen = train.inputs.visit_counts > 0
    new_position = np.where(seen, np.cumsum(seen) - 1, -1)
    flat = FlatVisits.of(train.inputs, new_position)
    n_steps = max(settings.fewest_steps, -(-max(len(rows) for rows in train.rows) // settings.batch))

    def fit_one(k: int) -> Classifier:
        number = k if numbers is None else numbers[k]
        network = _network(int(seen.sum()), train.targets[k], seed, number, settings)
        epochs = (
            _batches(train.part([k]), random_stream(seed, "tstr-order", number, epoch), n_steps, settings.batch)
            for epoch in range(settings.epochs)
        )
        return _train(network, flat, epochs, valid.part([k]), settings)

    # Small networks gain nothing from threads inside a step; side by side they do.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return Classifiers(tuple(pool.map(fit_one, range(len(train.rows)))), new_position)


def predict(classifiers: Classifiers, examples: ExampleSet, at_once: int = 2_000) -> list[NDArray[np.float64]]:
    """The probability of each output for the patients of each classifier's task, patients × outputs."""
    flat = FlatVisits.of(examples.inputs, classifiers.new_position)
    return [
        _all_logits(one.network, flat, rows, at_once).sigmoid().numpy()
        for one, rows in zip(classifiers.each, examples.rows, strict=True)
    ]


def _network(
    n_codes: int, target: NDArray[np.uint8], seed: int, number: int, settings: ClassifierSettings
) -> ModuleDict:
    """The network before training, from the classifier's own stream; an output starts at its label's prevalence."""
    import torch

    hidden, n_outputs = settings.hidden, target.shape[1]
    random = random_stream(seed, "tstr-weights", number)
    network = torch.nn.ModuleDict(
        {
            "codes": torch.nn.EmbeddingBag(n_codes, settings.embedding, mode="sum", include_last_offset=True),
            "visits": torch.nn.LSTM(settings.embedding, hidden, settings.layers, bidirectional=True),
            "output": torch.nn.Linear(2 * hidden, n_outputs),
        }
    )
    state = {"codes.weight": random.standard_normal((n_codes, settings.embedding), np.float32) * settings.spread}
    bound = 1 / np.sqrt(hidden)
    # Drawn in the order input, forget, output, candidate gate; torch has the output gate last.
    gates = np.r_[0 : 2 * hidden, 3 * hidden : 4 * hidden, 2 * hidden : 3 * hidden]
    for layer in range(settings.layers):
        width = settings.embedding if layer == 0 else 2 * hidden
        for name, n_rows in (("weight_ih", width), ("weight_hh", hidden), ("bias_ih", 1)):
            both = random.uniform(-bound, bound, (2, n_rows, 4 * hidden))[:, :, gates].transpose(0, 2, 1)
            for suffix, drawn in zip(("", "_reverse"), both, strict=True):
                state[f"visits.{name}_l{layer}{suffix}"] = drawn.ravel() if name == "bias_ih" else drawn
                state[f"visits.bias_hh_l{layer}{suffix}"] = np.zeros(4 * hidden)
    state["output.weight"] = random.uniform(-bound, bound, (2 * hidden, n_outputs)).T
    # Half a patient more on either side keeps the logit of an absent label finite.
    state["output.bias"] = np.log((target.sum(axis=0) + 0.5) / (len(target) - target.sum(axis=0, dtype=float) + 0.5))
    network.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(x, np.float32)) for name, x in state.items()})
    for name, weight in network.named_parameters():
        # torch adds two biases to each gate; one is enough, and two would move twice as fast.
        weight.requires_grad_("bias_hh" not in name)
    return network


def _train(
    network: ModuleDict,
    flat: FlatVisits,
    epochs: Iterator[Iterator[tuple[NDArray[np.int64], Tensor]]],
    valid: ExampleSet,
    settings: ClassifierSettings,
) -> Classifier:
    """The classifier trained on the batches of each epoch until its loss on `valid` has stopped falling."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    weights = [weight for weight in network.parameters() if weight.requires_grad]
    adam = torch.optim.Adam(weights, lr=settings.rate, fused=True)
    truth = torch.from_numpy(valid.targets[0].astype(np.float64))
    best_loss, best_epoch, best = float("inf"), -1, _copy(network)
    for epoch, batches in enumerate(epochs):
        for rows, targets in batches:
            adam.zero_grad(set_to_none=True)
            binary_cross_entropy_with_logits(_logits(network, flat, rows), targets).backward()
            adam.step()
        loss = float(binary_cross_entropy_with_logits(_all_logits(network, flat, valid.rows[0]), truth))
        if loss < best_loss:
            best_loss, best_epoch, best = loss, epoch, _copy(network)
        if epoch - best_epoch >= settings.patience:
            break
    network.load_state_dict(best)
    return Classifier(network, best_epoch, epoch + 1)


def _copy(network: ModuleDict) -> dict[str, Tensor]:
    """The weights of a network, apart from it."""
    return {name: weight.detach().clone() for name, weight in network.state_dict().items()}


def _batches(
    examples: ExampleSet, random: np.random.Generator, n_steps: int, size: int
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Patients and targets of each step of an epoch; a set that is used up starts over in a new order."""
    import torch

    (rows,), (targets,) = examples.rows, examples.targets
    rounds = -(-n_steps * size // len(rows))
    order = np.concatenate([random.permutation(len(rows)) for _ in range(rounds)])
    for start in range(0, n_steps * size, size):
        batch = order[start : start + size]
        yield rows[batch], torch.from_numpy(targets[batch].astype(np.float32))


def _all_logits(network: ModuleDict, flat: FlatVisits, rows: NDArray[np.int64], at_once: int = 2_000) -> Tensor:
    """Logits for any number of patients in double precision, without gradients, patients × outputs."""
    import torch

    with torch.no_grad():
        parts = [_logits(network, flat, rows[start : start + at_once]) for start in range(0, len(rows), at_once)]
        return torch.cat(parts).double()


def _logits(network: ModuleDict, flat: FlatVisits, rows: NDArray[np.int64]) -> Tensor:
    """Logits for some patients, patients × outputs."""
    import torch
    from torch.nn.utils.rnn import PackedSequence

    packed = pack(flat, rows)
    visits = network["codes"](torch.from_numpy(packed.codes), torch.from_numpy(packed.visit_starts))  # (visits, E)
    order = torch.from_numpy(packed.order)
    records = PackedSequence(visits, torch.from_numpy(packed.widths), order, torch.argsort(order))
    _, (last, _) = network["visits"](records)  # (layers × directions, B, H)
    return network["output"](torch.cat([last[-2], last[-1]], dim=1))


# ---- batches of records -------------------------------------------------------------------------------------
# Records of a batch as torch packs them: time step by time step, longest record first, no padding.
@dataclass(frozen=True, eq=False)
class FlatVisits:
    """The visits of a cohort with only the known codes, renumbered; a visit may have become empty.

    >>> cohort = Cohort.of([[["A", "B"], ["C"]], [["B"]]])
    >>> flat = FlatVisits.of(cohort, np.array([-1, 0, -1]))
    >>> flat.codes.tolist(), flat.visit_starts.tolist(), flat.patient_starts.tolist()
    ([0, 0], [0, 1, 1, 2], [0, 2, 3])
    """

    codes: NDArray[np.int64]
    visit_starts: NDArray[np.int64]
    patient_starts: NDArray[np.int64]

    @classmethod
    def of(cls, cohort: Cohort, new_position: NDArray[np.int64]) -> FlatVisits:
        """The cohort's visits with code c as `new_position[c]`, left out where that is negative."""
        codes = new_position[cohort.codes]
        kept = starts_from_sizes((codes >= 0).astype(np.int64))
        return cls(codes[codes >= 0], kept[cohort.visit_starts], np.asarray(cohort.patient_starts))


@dataclass(frozen=True, eq=False)
class Packed:
    """The visits of a batch of patients: first all first visits, then all second visits, and so on."""

    #: Codes of all visits, and where each visit's codes begin, with the end as last element.
    codes: NDArray[np.int64]
    visit_starts: NDArray[np.int64]
    #: Visits at each time step.
    widths: NDArray[np.int64]
    #: The rows, longest record first: the order of the visits of a time step.
    order: NDArray[np.int64]


def pack(flat: FlatVisits, rows: NDArray[np.int64]) -> Packed:
    """The batch of the patients in these rows.

    >>> flat = FlatVisits.of(Cohort.of([[["A"]], [["B"], ["C"]]]), np.arange(3))
    >>> packed = pack(flat, np.array([0, 1]))
    >>> packed.widths.tolist(), packed.codes.tolist(), packed.order.tolist()
    ([2, 1], [1, 0, 2], [1, 0])
    """
    first = flat.patient_starts[rows]
    lengths = flat.patient_starts[rows + 1] - first
    order = np.argsort(-lengths, kind="stable")
    # How many records are longer than 0, 1, 2, … visits.
    widths = len(rows) - np.cumsum(np.bincount(lengths))[:-1]
    rank = expand_ranges(np.zeros_like(widths), widths)
    visits = first[order][rank] + np.repeat(np.arange(len(widths)), widths)
    begin, end = flat.visit_starts[visits], flat.visit_starts[visits + 1]
    return Packed(flat.codes[expand_ranges(begin, end)], starts_from_sizes(end - begin), widths, order)


# ---- scores of predictions, many weightings of the patients at once -----------------------------------------
#: truth, score, weights → one number a weighting.
Measure = Callable[[Truth, Floats, NDArray[np.int64]], Floats]
#: A patient is called positive from this probability on.
THRESHOLD = 0.5


def accuracy(truth: Truth, score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The weighted share of patients on the right side of the threshold.

    >>> accuracy(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).round(3).tolist()
    [0.333]
    """
    right = (score >= THRESHOLD) == (truth == 1)
    return _share(weights[right].sum(axis=0), weights.sum(axis=0))


def f1(truth: Truth, score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The harmonic mean of precision and recall at the threshold; 0 where nothing is or was called positive.

    >>> f1(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).tolist()
    [0.5]
    """
    called, positive = score >= THRESHOLD, truth == 1
    hits = weights[called & positive].sum(axis=0)
    return np.nan_to_num(_share(2.0 * hits, weights[called].sum(axis=0) + weights[positive].sum(axis=0)))


def average_precision(truth: Truth, score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The area under the precision–recall steps (AUPRC); not a number where nobody is positive.

    >>> average_precision(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).round(3)
    array([0.833])
    """
    hits, called = _cumulative_counts(truth, score, weights)
    steps = np.diff(hits, axis=0, prepend=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # A score that no resampled patient has adds no step and no precision.
        gained = np.where(steps > 0, steps * (hits / called), 0.0).sum(axis=0)
    return _share(gained, hits[-1])


def roc_area(truth: Truth, score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The chance that a positive ranks above a negative, ties half (AUROC); not a number where one kind is missing.

    >>> roc_area(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).tolist()
    [0.5]
    """
    hits, called = _cumulative_counts(truth, score, weights)
    misses = called - hits
    height = (np.vstack([np.zeros_like(hits[:1]), hits[:-1]]) + hits) / 2.0
    area = (height * np.diff(misses, axis=0, prepend=0)).sum(axis=0)
    return _share(area, hits[-1].astype(float) * misses[-1])


def _cumulative_counts(
    truth: Truth, score: Floats, weights: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Weighted positives and patients at or above each distinct score, highest score first."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    ranked = weights[order]
    called = np.cumsum(ranked, axis=0)[ends]
    hits = np.cumsum(ranked * truth[order, None], axis=0)[ends]
    return hits, called


def _share(top: NDArray[np.int64] | Floats, bottom: NDArray[np.int64] | Floats) -> Floats:
    """top / bottom as floats, not a number where the bottom is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.asarray(bottom) > 0, np.asarray(top, dtype=float) / bottom, np.nan)
