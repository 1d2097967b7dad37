"""How sure a score is: bootstrap and jackknife over patients, Wilson's, normal and Student's intervals.

Bootstrap and jackknife resample the synthetic patients where a score is a property of them, and the test patients where
these evaluate models.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from adapcla.evaluation.comparison import PART, Comparison, Missing, Score
from adapcla.seeds import random_stream

#: Bootstrap draws of a result, and of a quick look.
DRAWS, QUICK_DRAWS = 200, 100
#: Two-sided coverage of every interval.
LEVEL = 0.95
K = TypeVar("K", bound=Hashable)


def wilson(successes: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The Wilson score interval of a rate (Wilson, 1927).

    >>> low, high = wilson(5, 10)
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)
    """
    if n == 0:
        return 0.0, 1.0
    z = normal_half(level)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends rounding would leave a hair where the bound is exact.
    low = 0.0 if successes == 0 else max(0.0, float(centre - half))
    return low, 1.0 if successes == n else min(1.0, float(centre + half))


def normal_score(value: float, n: int, error: float, bounds: tuple[float, float]) -> Score:
    """The value with the interval of a normal distribution of this standard error, kept inside the bounds.

    >>> score = normal_score(0.5, 100, 0.1, (0.0, 1.0))
    >>> round(score.low, 3), round(score.high, 3)
    (0.304, 0.696)
    """
    half = normal_half() * error
    return Score(value, n, max(bounds[0], value - half), min(bounds[1], value + half))


def normal_half(level: float = LEVEL) -> float:
    """Standard errors from the middle of a normal distribution to either end of its interval.

    >>> round(normal_half(), 3)
    1.96
    """
    return float(stats.norm.ppf(0.5 + level / 2))


def student_half(error: float, n: int) -> float:
    """Half of Student's interval of an estimate whose standard error comes from n values.

    >>> round(student_half(1.0, 3), 3)
    4.303
    """
    return float(stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * error


def _poisson_table() -> NDArray[np.uint8]:
    """Poisson(1) numbers, each as often among 65,536 entries as its probability says."""
    ends = np.round(stats.poisson.cdf(np.arange(10), 1.0) * 65_536).astype(np.int64)
    return np.searchsorted(ends, np.arange(65_536), side="right").astype(np.uint8)


def poisson_weights(n_patients: int, seed: int, draws: int, block: int = 0) -> NDArray[np.uint8]:
    """How often each patient counts in each bootstrap draw: Poisson(1), one row per patient.

    >>> poisson_weights(1000, seed=1, draws=20).shape
    (1000, 20)
    """
    numbers = random_stream(seed, "bootstrap", block).integers(0, 65_536, size=(n_patients, draws), dtype=np.uint16)
    return _poisson_table()[numbers]


def bootstrap_sums(columns: NDArray[Any], seed: int, draws: int = DRAWS, first_block: int = 0) -> NDArray[np.float64]:
    """Column sums under resampled patients, one row per draw; weights are drawn for blocks of `PART` patients.

    >>> bootstrap_sums(np.ones((1000, 1)), seed=1, draws=50).mean().round(-2)
    np.float64(1000.0)
    """
    rows = np.asarray(columns, dtype=np.float64)
    out = np.zeros((draws, rows.shape[1]))
    for block, begin in enumerate(range(0, len(rows), PART), first_block):
        piece = rows[begin : begin + PART]
        out += poisson_weights(len(piece), seed, draws, block).T.astype(np.float64) @ piece
    return out


class PatientSums(NamedTuple):
    """A ratio of sums over patients, in parts: what each patient adds to the numerator and to the denominator."""

    top: NDArray[Any]
    bottom: NDArray[Any]
    #: Why there is no value where the denominator is 0.
    reason: str


def ratio_scores(comparison: Comparison, parts: Iterable[Mapping[K, PatientSums | Missing]]) -> dict[K, Score]:
    """The pooled ratio of each stratum with its bootstrap interval; n is the denominator.

    Patients are those of the synthetic cohort, in parts of `PART`, or those of the test cohort. What a part lacks adds
    nothing.

    >>> cohort = __import__("adapcla").Cohort.of([[["A"]]])
    >>> pair = Comparison.of(cohort, cohort, cohort, intervals=False)
    >>> ratio_scores(pair, [{"all": PatientSums(np.array([1.0, 2.0]), np.array([2.0, 4.0]), "nothing there")}])
    {'all': Score(value=0.5, n=6, low=None, high=None, reason='')}
    """
    draws, n_patients = n_draws(comparison) if comparison.intervals else 0, 0
    reasons: dict[K, str] = {}
    #: Rows: all patients, then each draw; columns: numerator and denominator.
    totals: dict[K, NDArray[np.float64]] = {}
    for block, sums in enumerate(parts):
        known = {name: each for name, each in sums.items() if not isinstance(each, Missing)}
        reasons |= {name: each.reason for name, each in sums.items() if name not in totals}
        if not known:
            continue
        columns = np.stack([column for each in known.values() for column in (each.top, each.bottom)], axis=1)
        drawn = bootstrap_sums(columns, comparison.seed, draws, block)
        n_patients += len(columns)
        for k, name in enumerate(known):
            own = slice(2 * k, 2 * k + 2)
            rows = np.vstack([[known[name].top.sum(), known[name].bottom.sum()], drawn[:, own]])
            totals[name] = totals.get(name, 0.0) + rows
            reasons[name] = known[name].reason
    return {
        name: _ratio_score(totals[name], draws if n_patients > 1 else 0, reason)
        if name in totals
        else Missing(reason).score
        for name, reason in reasons.items()
    }


def _ratio_score(sums: NDArray[np.float64], draws: int, reason: str) -> Score:
    """The ratio of the first row with the percentile bounds of the ratios of the draws."""
    top, bottom = sums[0]
    if bottom == 0:
        return Missing(reason).score
    value, n = float(top / bottom), round(float(bottom))
    if not draws:
        return Score(value, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = sums[1:, 0] / sums[1:, 1]
    finite = ratios[np.isfinite(ratios)]
    return Score(value, n, *percentile_interval(finite)) if len(finite) > draws // 2 else Score(value, n)


def percentile_interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of bootstrap draws, those without a value left out.

    >>> [round(end, 6) for end in percentile_interval(np.arange(1001.0))]
    [25.0, 975.0]
    """
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def n_draws(comparison: Comparison) -> int:
    """Bootstrap draws of a result, or of a quick look."""
    return QUICK_DRAWS if comparison.quick else DRAWS


def jackknife_score(value: float, n: int, without: Sequence[float], bounds: tuple[float, float], reason: str) -> Score:
    """The value with its jackknife interval, or, where it is not a number, no value and the reason.

    >>> jackknife_score(float("nan"), 3, [], (0.0, 1.0), "nothing varies")
    Score(value=None, n=3, low=None, high=None, reason='nothing varies')
    """
    if not np.isfinite(value):
        return Missing(reason, n).score
    low, high = jackknife_interval(value, np.asarray(without, dtype=float), bounds)
    return Score(float(value), n, low, high)


def jackknife_interval(
    value: float, without: NDArray[np.float64], bounds: tuple[float, float]
) -> tuple[float | None, float | None]:
    """Student's interval around a value from the values without each group of patients, kept inside the bounds.

    The variance is (G − 1)/G times the sum of squared deviations (delete-a-group jackknife; Kott, 2001).

    >>> jackknife_interval(0.5, np.array([0.4, 0.6]), (0.0, 1.0))
    (0.0, 1.0)
    >>> low, high = jackknife_interval(2.0, np.array([1.0, 2.0, 3.0]), (-10.0, 10.0))
    >>> round(low, 3), round(high, 3)
    (-2.968, 6.968)
    """
    drawn = without[np.isfinite(without)]
    n_groups = len(drawn)
    if n_groups < 2 or n_groups < len(without):
        return None, None
    error = float(np.sqrt((n_groups - 1) / n_groups * ((drawn - drawn.mean()) ** 2).sum()))
    half = student_half(error, n_groups)
    return float(max(bounds[0], value - half)), float(min(bounds[1], value + half))


def mean_of_halves(
    own: Score, values: Sequence[float | None], bounds: tuple[float, float] = (0.0, 1.0), real: bool = False
) -> Score:
    """The mean over halves of the test patients with both errors; where a half has no value, the score of the first.

    One half decides little: how many pairs of rare codes it holds is luck. The first error is that of the scored
    patients, the test patients held fixed; the second is the spread over the halves. With a score that is near to a
    mean over patients, a half differs from the mean of all halves as much as that mean differs from its expectation:
    (1 − ½)/½ = 1 (half-samples; McCarthy, 1969). So the standard deviation over halves is the standard error of the
    mean of the halves. Of `real` patients both parts are in the spread, since both halves change.

    >>> score = mean_of_halves(Score(0.5, 10, 0.4, 0.6), [0.5, 0.6, 0.7])
    >>> round(score.value, 3), round(score.low, 3), round(score.high, 3)
    (0.6, 0.158, 1.0)
    >>> mean_of_halves(Score(0.5, 10, 0.4, 0.6), [0.5, None])
    Score(value=0.5, n=10, low=0.4, high=0.6, reason='')
    """
    known = [value for value in values if value is not None]
    if own.value is None or len(known) < len(values) or len(known) < 2:
        return own
    value = float(np.mean(known))
    half = student_half(float(np.std(known, ddof=1)), len(known))
    if not real and own.low is not None and own.high is not None:
        half = math.hypot(half, (own.high - own.low) / 2)
    low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return Score(value, own.n, low, high, own.reason)
