"""Time between visits: how long people stay away, in all and after a visit with a certain code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from adapcla.data import Cohort
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.intervals import groups_of, jackknife_score

Floats = NDArray[np.float64]
#: Gaps of training patients after a code below which its mean says little.
FEWEST_GAPS = 20


class Gaps(NamedTuple):
    """The days from each visit to the same patient's next one, the visit before the gap, and the patient."""

    days: NDArray[np.int64]
    visit: NDArray[np.int64]
    patient: NDArray[np.int64]


def gaps_of(cohort: Cohort) -> Gaps | None:
    """The gaps of a cohort; None where it has no days.

    >>> gaps_of(Cohort.of([[["A"], ["B"]], [["A"]]], days=np.array([0, 30, 0], dtype=np.int32))).days.tolist()
    [30]
    >>> gaps_of(Cohort.of([[["A"], ["B"]]])) is None
    True
    """
    if cohort.days is None:
        return None
    step = cohort.visits_with_next
    days = np.asarray(cohort.days, dtype=np.int64)
    return Gaps(days[step + 1] - days[step], step, cohort.patient_of_visit[step])


def _both(comparison: Comparison) -> tuple[Gaps, Gaps] | Missing:
    """The gaps of training and of synthetic patients; or why there are none."""
    train, synthetic = (comparison.of_cohort(gaps_of, one) for one in (comparison.train, comparison.synthetic))
    for name, gaps in (("training", train), ("synthetic", synthetic)):
        if gaps is None:
            return Missing(f"the {name} patients have no days")
        if not len(gaps.days):
            return Missing(f"no {name} patient has two visits")
    assert train is not None
    assert synthetic is not None
    return train, synthetic


def _rests(comparison: Comparison, gaps: Gaps) -> list[NDArray[np.bool_]]:
    """Which gaps stay: all, then all but those of each jackknife group."""
    groups = groups_of(comparison)
    everything = np.ones(len(gaps.days), dtype=bool)
    if groups is None:
        return [everything]
    group = groups[gaps.patient]
    return [everything, *(group != g for g in range(int(groups.max()) + 1))]


def gap_distance(comparison: Comparison) -> dict[str, Score]:
    """Wasserstein distance between the days from visit to visit and those of training."""
    both = _both(comparison)
    if isinstance(both, Missing):
        return {ALL: both.score}
    train, synthetic = both
    target = np.bincount(train.days)
    value, *without = (_distance(synthetic.days[stays], target) for stays in _rests(comparison, synthetic))
    return {ALL: jackknife_score(value, len(synthetic.days), without, POSITIVE, "no synthetic patient has two visits")}


def _distance(days: NDArray[np.int64], target: NDArray[np.int64]) -> float:
    """Wasserstein-1 distance between gaps and a histogram of gaps; gaps are whole days, so counts are enough."""
    if not len(days):
        return float("nan")
    counts = np.bincount(days)
    return float(wasserstein_distance(np.arange(len(counts)), np.arange(len(target)), counts, target))


def gap_by_code(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of the mean log gap after each code from that of training, weighted by training gaps.

    A code after which no synthetic patient comes back counts as the mean log gap of all synthetic patients.
    """
    both = _both(comparison)
    if isinstance(both, Missing):
        return {ALL: both.score}
    train, synthetic = both
    total, weight = _log_gaps(comparison.train, train, np.ones(len(train.days), dtype=bool))
    judged = weight >= FEWEST_GAPS
    if not judged.any():
        return {ALL: Missing(f"no code has {FEWEST_GAPS} gaps after it in training").score}
    truth = total[judged] / weight[judged]

    def error(stays: NDArray[np.bool_]) -> float:
        sums, n = _log_gaps(comparison.synthetic, synthetic, stays)
        # Only a jackknife group that holds every gap leaves none.
        anybody = float(np.log1p(synthetic.days[stays]).mean()) if stays.any() else float("nan")
        guess = np.where(n[judged] > 0, sums[judged] / np.maximum(n[judged], 1), anybody)
        return float(np.average(np.abs(guess - truth), weights=weight[judged]))

    value, *without = (error(stays) for stays in _rests(comparison, synthetic))
    return {ALL: jackknife_score(value, int(judged.sum()), without, POSITIVE, "no synthetic patient has two visits")}


def _log_gaps(cohort: Cohort, gaps: Gaps, stays: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """For each code, the sum of log(1 + days) over the gaps after visits that hold it, and the number of gaps."""
    before = cohort.matrix()[gaps.visit[stays]]
    sums = np.asarray(before.T @ np.log1p(gaps.days[stays]), dtype=np.float64).ravel()
    return sums, np.asarray(before.sum(axis=0), dtype=np.float64).ravel()
