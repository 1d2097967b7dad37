"""Accuracy, F1, precision–recall and ROC areas with patient weights, many weightings at once.

Each function takes truths and scores of n patients and weights of n × D (D resamplings), and returns D numbers: a
bootstrap over patients sorts the scores once. Unit weights give scikit-learn's values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: truth, score, weights → one number a weighting.
Statistic = Callable[[NDArray[np.uint8], Floats, NDArray[np.int64]], Floats]
#: A patient is called positive from this probability on.
THRESHOLD = 0.5


def accuracy(truth: NDArray[np.uint8], score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The weighted share of patients on the right side of the threshold.

    >>> accuracy(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).round(3).tolist()
    [0.333]
    """
    right = (score >= THRESHOLD) == (truth == 1)
    return _share(weights[right].sum(axis=0), weights.sum(axis=0))


def f1(truth: NDArray[np.uint8], score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The harmonic mean of precision and recall at the threshold; 0 where nothing is or was called positive.

    >>> f1(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).tolist()
    [0.5]
    """
    called, positive = score >= THRESHOLD, truth == 1
    hits = weights[called & positive].sum(axis=0)
    return np.nan_to_num(_share(2.0 * hits, weights[called].sum(axis=0) + weights[positive].sum(axis=0)))


def average_precision(truth: NDArray[np.uint8], score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The area under the precision–recall steps (AUPRC); not a number where nobody is positive.

    >>> average_precision(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).round(3)
    array([0.833])
    """
    hits, called = _ranked(truth, score, weights)
    steps = np.diff(hits, axis=0, prepend=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # A score that no resampled patient has adds no step and no precision.
        gained = np.where(steps > 0, steps * (hits / called), 0.0).sum(axis=0)
    return _share(gained, hits[-1])


def roc_area(truth: NDArray[np.uint8], score: Floats, weights: NDArray[np.int64]) -> Floats:
    """The chance that a positive ranks above a negative, ties half (AUROC); not a number where one kind is missing.

    >>> roc_area(np.array([1, 0, 1], np.uint8), np.array([0.9, 0.7, 0.1]), np.ones((3, 1), int)).tolist()
    [0.5]
    """
    hits, called = _ranked(truth, score, weights)
    misses = called - hits
    height = (np.vstack([np.zeros_like(hits[:1]), hits[:-1]]) + hits) / 2.0
    area = (height * np.diff(misses, axis=0, prepend=0)).sum(axis=0)
    return _share(area, hits[-1].astype(float) * misses[-1])


def _ranked(
    truth: NDArray[np.uint8], score: Floats, weights: NDArray[np.int64]
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
