"""Whether predicted probabilities mean what they say: calibration of the classifiers of the utility suite.

All scores pool (test patient, label) pairs, over all labels and over the tail labels. They come in two forms: of the
natural protocol, where probabilities are those of patients as they come, and (`_balanced`) of the paper's, whose
classifiers are trained and judged on sets in which half have the label. Intervals resample the real test patients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.intervals import DRAWS, LEVEL, QUICK_DRAWS, bootstrap_sums, draws_kept, ratio_scores
from adapcla.evaluation.utility import Judgement, natural_judgements, tail_of

N_BINS = 15
#: Probabilities are kept this far from 0 and 1 before a logarithm is taken.
CLIP = 1e-7
WORST_LOSS = float(-np.log(CLIP))
_EMPTY = Missing("there is no label")

Floats = NDArray[np.float64]
#: What a protocol of the utility suite says of test patients.
Judged = Callable[[Comparison], list[Judgement] | Missing]


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
    """Pairs of a test patient and a label: who, what was said and what is true."""

    patient: NDArray[np.int64]
    said: Floats
    truth: NDArray[np.uint8]

    @classmethod
    def of(cls, judgements: list[Judgement]) -> Pairs:
        """The pairs of some judgements."""
        empty = np.zeros(0)
        return cls(
            np.concatenate([empty.astype(np.int64), *(each.rows for each in judgements)]),
            np.concatenate([empty, *(each.probability for each in judgements)]),
            np.concatenate([empty.astype(np.uint8), *(each.truth for each in judgements)]),
        )


def pairs_of(comparison: Comparison, judged: Judged = natural_judgements) -> dict[str, Pairs] | Missing:
    """The pairs of a protocol, of each stratum; or why there are none."""
    judgements = comparison.once(judged)
    if isinstance(judgements, Missing):
        return judgements
    if not judgements:
        return _EMPTY
    tail = tail_of(comparison)
    return {ALL: Pairs.of(judgements), "tail": Pairs.of([each for each in judgements if tail[each.label]])}


def squared_loss(said: Floats, truth: NDArray[np.uint8]) -> Floats:
    """The squared distance of each pair.

    >>> squared_loss(np.array([0.5, 1.0]), np.array([1, 1])).tolist()
    [0.25, 0.0]
    """
    return np.square(said - truth)


def log_loss(said: Floats, truth: NDArray[np.uint8]) -> Floats:
    """The negative log-likelihood of each pair, in nats.

    >>> log_loss(np.array([0.5, 1.0]), np.array([1, 1])).round(4).tolist()
    [0.6931, 0.0]
    """
    kept = np.clip(said, CLIP, 1 - CLIP)
    return -np.where(truth == 1, np.log(kept), np.log1p(-kept))


def mean_loss(
    loss: Callable[[Floats, NDArray[np.uint8]], Floats], comparison: Comparison, *, judged: Judged = natural_judgements
) -> dict[str, Score]:
    """The mean of a loss over the pairs of each stratum."""
    pairs, n = comparison.once(pairs_of, judged), comparison.test.n_patients
    if isinstance(pairs, Missing):
        return {ALL: pairs.score, "tail": pairs.score}
    tops = [np.bincount(each.patient, loss(each.said, each.truth), n) for each in pairs.values()]
    bottoms = [np.bincount(each.patient, minlength=n).astype(np.float64) for each in pairs.values()]
    reasons = [_EMPTY.reason] * len(pairs)
    scores = ratio_scores(comparison, np.stack(tops, axis=1), np.stack(bottoms, axis=1), reasons, judges=True)
    return dict(zip(pairs, scores, strict=True))


def calibration(
    comparison: Comparison, *, equal_mass: bool = False, judged: Judged = natural_judgements
) -> dict[str, Score]:
    """The expected calibration error of each stratum, in bins of equal width or of equally many pairs."""
    pairs = comparison.once(pairs_of, judged)
    if isinstance(pairs, Missing):
        return {ALL: pairs.score, "tail": pairs.score}
    return {name: _calibration_score(comparison, each, equal_mass) for name, each in pairs.items()}


def _calibration_score(comparison: Comparison, pairs: Pairs, equal_mass: bool) -> Score:
    """The calibration error with its interval.

    The bins are held fixed. Resampling adds noise to every gap, so the drawn errors lie above the value; the interval
    is the spread of the draws around their mean, moved to the value.
    """
    patient, said, truth = pairs
    if said.size == 0:
        return _EMPTY.score
    value, n = calibration_error(said, truth, equal_mass=equal_mass), comparison.test.n_patients
    if not comparison.intervals or n < 2:
        return Score(value, said.size)
    edges = bin_edges(said, equal_mass=equal_mass)
    n_bins = len(edges) - 1
    cell = bin_of(said, edges) + patient * n_bins
    excess = np.bincount(cell, truth - said, n * n_bins).reshape(n, n_bins)
    columns = np.hstack([excess, np.bincount(patient, minlength=n)[:, None]])
    sums = bootstrap_sums(columns, comparison.seed, QUICK_DRAWS if comparison.quick else DRAWS)
    drawn = np.abs(sums[:, :-1]).sum(axis=1) / np.maximum(sums[:, -1], 1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - drawn.mean() + value
    kept = draws_kept(drawn - drawn.mean() + value)
    return Score(value, said.size, max(0.0, float(low)), min(1.0, float(high)), redrawn=kept)
