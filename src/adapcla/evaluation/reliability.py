"""Whether predicted probabilities mean what they say: calibration of the classifiers of the utility suite.

All scores pool (test patient, label) pairs, over all labels and over the tail labels. They come in two forms: of one
classifier for all patients as they come, and (`_balanced`) of the paper's, whose classifiers are trained and evaluated
on sets in which half have the label. Intervals resample the real test patients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.evaluation.bootstrap import PatientSums, bootstrap_sums, n_draws, percentile_interval
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import Metric, RatioMetric
from adapcla.evaluation.utility import Prediction, balanced_predictions, natural_predictions, tail_of

N_BINS = 15
#: Probabilities are kept this far from 0 and 1 before a logarithm is taken.
CLIP = 1e-7
WORST_LOSS = float(-np.log(CLIP))

Floats = NDArray[np.float64]
#: The predictions of a task of the utility suite for test patients.
Predictions = Callable[[Comparison], list[Prediction] | Missing]


def reliability_bins(
    probabilities: Floats, labels: NDArray[np.uint8], n_bins: int = N_BINS, equal_mass: bool = False
) -> dict[str, NDArray[np.float64]]:
    """The reliability diagram: for each bin its bounds, mean probability, observed share and number of pairs.

    Bins are equally wide, or (`equal_mass`) hold equally many pairs as far as ties allow; empty bins are not a number.

    >>> bins = reliability_bins(np.array([0.1, 0.2, 0.9]), np.array([0, 1, 1]), n_bins=2)
    >>> bins["probability"].round(2).tolist(), bins["observed"].tolist(), bins["n"].tolist()
    ([0.15, 0.9], [0.5, 1.0], [2.0, 1.0])
    """
    flat, truth = np.ravel(probabilities).astype(float), np.ravel(labels).astype(float)
    edges = bin_edges(flat, n_bins, equal_mass)
    where = bin_of(flat, edges)
    n = np.bincount(where, minlength=len(edges) - 1).astype(float)
    with np.errstate(invalid="ignore"):
        return {
            "low": edges[:-1],
            "high": edges[1:],
            "probability": np.bincount(where, flat, len(edges) - 1) / n,
            "observed": np.bincount(where, truth, len(edges) - 1) / n,
            "n": n,
        }


def calibration_error(
    probabilities: Floats, labels: NDArray[np.uint8], n_bins: int = N_BINS, equal_mass: bool = False
) -> float:
    """The expected calibration error (ECE): |observed − predicted|, mean over bins weighted by their pairs.

    >>> round(calibration_error(np.array([0.1, 0.2, 0.9]), np.array([0, 1, 1]), n_bins=2), 4)
    0.2667
    """
    bins = reliability_bins(probabilities, labels, n_bins, equal_mass)
    full = bins["n"] > 0
    gap = np.abs(bins["observed"] - bins["probability"])[full]
    return float((gap * bins["n"][full]).sum() / bins["n"].sum())


def bin_edges(probabilities: Floats, n_bins: int = N_BINS, equal_mass: bool = False) -> Floats:
    """The bounds of the bins, from 0 to 1; equal-mass bins that ties make empty are merged.

    >>> bin_edges(np.array([0.1, 0.2, 0.3, 0.9]), n_bins=2, equal_mass=True).round(2).tolist()
    [0.0, 0.25, 1.0]
    """
    if not equal_mass:
        return np.linspace(0.0, 1.0, n_bins + 1)
    inner = np.quantile(probabilities, np.arange(1, n_bins) / n_bins)
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def bin_of(probabilities: Floats, edges: Floats) -> NDArray[np.int64]:
    """The bin of each probability; a bin holds its lower bound, the last one also 1.

    >>> bin_of(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 1.0])).tolist()
    [0, 1, 1]
    """
    return np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, len(edges) - 2)


class Pairs(NamedTuple):
    """Pairs of a test patient and a label: who, the predicted probability and what is true."""

    patient: NDArray[np.int64]
    probability: Floats
    truth: NDArray[np.uint8]

    @classmethod
    def of(cls, predictions: list[Prediction]) -> Pairs:
        """The pairs of some predictions."""
        empty = np.zeros(0)
        return cls(
            np.concatenate([empty.astype(np.int64), *(each.rows for each in predictions)]),
            np.concatenate([empty, *(each.probability for each in predictions)]),
            np.concatenate([empty.astype(np.uint8), *(each.truth for each in predictions)]),
        )


def pairs_of(comparison: Comparison, predictions_of: Predictions = natural_predictions) -> dict[str, Pairs] | Missing:
    """The pairs of a task, of each stratum; or why there are none."""
    predictions = comparison.once(predictions_of)
    if isinstance(predictions, Missing):
        return predictions
    if not predictions:
        return Missing(NO_LABEL)
    tail = tail_of(comparison)
    return {ALL: Pairs.of(predictions), "tail": Pairs.of([each for each in predictions if tail[each.label]])}


NO_LABEL = "there is no label"


# ---- losses -------------------------------------------------------------------------------------------------
def squared_loss(probability: Floats, truth: NDArray[np.uint8]) -> Floats:
    """The squared distance of each pair.

    >>> squared_loss(np.array([0.5, 1.0]), np.array([1, 1])).tolist()
    [0.25, 0.0]
    """
    return np.square(probability - truth)


def log_loss(probability: Floats, truth: NDArray[np.uint8]) -> Floats:
    """The negative log-likelihood of each pair, in nats.

    >>> log_loss(np.array([0.5, 1.0]), np.array([1, 1])).round(4).tolist()
    [0.6931, 0.0]
    """
    inside = np.clip(probability, CLIP, 1 - CLIP)
    return -np.where(truth == 1, np.log(inside), np.log1p(-inside))


class MeanLoss(RatioMetric):
    """The mean of a loss over the pairs of each stratum."""

    suite, goal, cost, of_test = "reliability", "down", "slow", True
    predictions: ClassVar[Predictions] = natural_predictions
    loss: ClassVar[Callable[[Floats, NDArray[np.uint8]], Floats]]

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """The loss and the pairs of each test patient."""
        pairs, n = comparison.once(pairs_of, type(self).predictions), comparison.test.n_patients
        if isinstance(pairs, Missing):
            return {ALL: pairs, "tail": pairs}
        loss = type(self).loss
        return {
            name: PatientSums(
                np.bincount(each.patient, loss(each.probability, each.truth), n),
                np.bincount(each.patient, minlength=n),
                NO_LABEL,
            )
            for name, each in pairs.items()
        }


class Brier(MeanLoss):
    """Mean squared distance between probability and truth, on all real test patients."""

    key, loss, version = "brier", squared_loss, 3


class BrierBalanced(MeanLoss):
    """Mean squared distance between probability and truth of classifiers trained and tested half with the label."""

    key, origin, predictions, loss = "brier_balanced", "paper", balanced_predictions, squared_loss


class NLL(MeanLoss):
    """Mean negative log-likelihood of the truth, on all real test patients."""

    key, loss, bounds, unit, version = "nll", log_loss, (0.0, WORST_LOSS), "nats", 3


class NLLBalanced(MeanLoss):
    """Mean negative log-likelihood of the truth by classifiers trained and tested half with the label."""

    key, origin, predictions, loss = "nll_balanced", "paper", balanced_predictions, log_loss
    bounds, unit = (0.0, WORST_LOSS), "nats"


# ---- calibration --------------------------------------------------------------------------------------------
class CalibrationError(Metric):
    """Expected calibration error in 15 equally wide bins, on all real test patients."""

    key, suite, goal, cost, version = "ece", "reliability", "down", "slow", 3
    predictions: ClassVar[Predictions] = natural_predictions

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The error of each stratum."""
        comparison = comparison.sample
        pairs = comparison.once(pairs_of, type(self).predictions)
        if isinstance(pairs, Missing):
            return {ALL: pairs.score, "tail": pairs.score}
        return {name: _calibration_score(comparison, each) for name, each in pairs.items()}


class CalibrationErrorBalanced(CalibrationError):
    """Expected calibration error in 15 equally wide bins of classifiers trained and tested half with the label."""

    key, origin, predictions, version = "ece_balanced", "paper", balanced_predictions, 1


def _calibration_score(comparison: Comparison, pairs: Pairs) -> Score:
    """The calibration error with its interval.

    The bins are held fixed. Resampling adds noise to every gap, so the drawn errors lie above the value; the interval
    is the spread of the draws around their mean, moved to the value.
    """
    patient, probability, truth = pairs
    if probability.size == 0:
        return Missing(NO_LABEL).score
    value, n = calibration_error(probability, truth), comparison.test.n_patients
    if not comparison.intervals or n < 2:
        return Score(value, probability.size)
    edges = bin_edges(probability)
    n_bins = len(edges) - 1
    cell = bin_of(probability, edges) + patient * n_bins
    excess = np.bincount(cell, truth - probability, n * n_bins).reshape(n, n_bins)
    columns = np.hstack([excess, np.bincount(patient, minlength=n)[:, None]])
    sums = bootstrap_sums(columns, comparison.seed, n_draws(comparison))
    drawn = np.abs(sums[:, :-1]).sum(axis=1) / np.maximum(sums[:, -1], 1)
    low, high = percentile_interval(drawn - drawn.mean() + value)
    return Score(value, probability.size, max(0.0, low), min(1.0, high))
