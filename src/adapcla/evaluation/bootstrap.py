"""How sure a score is: bootstrap and jackknife over patients, Wilson's, normal and Student's intervals.

Bootstrap and jackknife resample the synthetic patients where a score is a property of them, and the test patients where
these evaluate models. A score of test patients also keeps some of the draws, which are the same for every method
(`Score.redrawn`), so that `both_errors` can put the luck of the test patients beside that of fits and samples.
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
#: Draws of the test patients that a score keeps.
KEPT_DRAWS = 64
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


def both_errors(values: Sequence[float] | NDArray[np.float64], inside: float = 0.0) -> tuple[float, float]:
    """The standard error of a mean over fits that the same test patients judge, and its degrees of freedom.

    The value of a sample of a fit is x = μ + T + F + S: T is the luck of the test patients, which all fits share, F
    that of the fit and S that of the sample. The mean over n fits (each the mean of its samples) has the variance

        Var(T) + Var(F + S) / n.

    The spread of the n values estimates the second term, with n − 1 degrees of freedom: they have T in common, so it is
    not in their spread. `inside` is the standard deviation of T, from draws of the test patients, with so many draws
    that its own error does not count. The degrees of freedom of the sum are those of Welch and Satterthwaite:
    ν = (Var(T) + s²/n)² / ((s²/n)² / (n − 1)). Without `inside` this is Student's.

    >>> error, freedom = both_errors([1.0, 2.0, 3.0])
    >>> round(error, 4), freedom
    (0.5774, 2.0)
    >>> error, freedom = both_errors([1.0, 2.0, 3.0], inside=(1 / 3) ** 0.5)
    >>> round(error, 4), round(freedom, 9)
    (0.8165, 8.0)
    """
    outside = float(np.var(values, ddof=1)) / len(values)
    if inside == 0:
        return outside**0.5, float(len(values) - 1)
    freedom = np.inf if outside == 0 else (inside**2 + outside) ** 2 * (len(values) - 1) / outside**2
    return float((inside**2 + outside) ** 0.5), float(freedom)


def spread(redrawn: Sequence[float] | NDArray[np.float64]) -> float:
    """The standard deviation over draws of the test patients; 0 where nothing was drawn again.

    >>> spread([1.0, 2.0, 3.0]), spread([])
    (1.0, 0.0)
    """
    return float(np.std(redrawn, ddof=1)) if len(redrawn) > 1 else 0.0


def mean_half(values: Sequence[float] | NDArray[np.float64], inside: float = 0.0) -> float:
    """Half of the interval of a mean, with an error `inside` that all values share; NaN for fewer than two values.

    >>> round(mean_half([0.4, 0.5, 0.6]), 3), round(mean_half([0.4, 0.5, 0.6], inside=0.1), 3)
    (0.248, 0.235)
    """
    if len(values) < 2:
        return float("nan")
    error, freedom = both_errors(values, inside)
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * error


def _poisson_table() -> NDArray[np.uint8]:
    """Poisson(1) numbers, each as often among 65,536 entries as its probability says."""
    ends = np.round(stats.poisson.cdf(np.arange(10), 1.0) * 65_536).astype(np.int64)
    return np.searchsorted(ends, np.arange(65_536), side="right").astype(np.uint8)


def resampled(n_patients: int, seed: int, draws: int, block: int = 0) -> NDArray[np.uint8]:
    """How often each patient counts in each bootstrap draw: Poisson(1), one row per patient.

    >>> resampled(1000, seed=1, draws=20).shape
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
        out += resampled(len(piece), seed, draws, block).T.astype(np.float64) @ piece
    return out


class PatientSums(NamedTuple):
    """A ratio of sums over patients, in parts: what each patient adds to the numerator and to the denominator."""

    top: NDArray[Any]
    bottom: NDArray[Any]
    #: Why there is no value where the denominator is 0.
    reason: str


def ratio_scores(
    comparison: Comparison, parts: Iterable[Mapping[K, PatientSums | Missing]], of_test: bool = False
) -> dict[K, Score]:
    """The pooled ratio of each stratum with its bootstrap interval; n is the denominator.

    Patients are those of the synthetic cohort, in parts of `PART`, or (`of_test`) of the test cohort; of these, which
    are the same for every synthetic cohort, some draws are kept. What a part lacks adds nothing.

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
        name: _ratio_score(totals[name], draws if n_patients > 1 else 0, of_test, reason)
        if name in totals
        else Missing(reason).score
        for name, reason in reasons.items()
    }


def _ratio_score(sums: NDArray[np.float64], draws: int, of_test: bool, reason: str) -> Score:
    """The ratio of the first row with the percentile bounds of the ratios of the draws."""
    top, bottom = sums[0]
    if bottom == 0:
        return Missing(reason).score
    value, n = float(top / bottom), round(float(bottom))
    if not draws:
        return Score(value, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = sums[1:, 0] / sums[1:, 1]
    kept, finite = draws_kept(ratios) if of_test else (), ratios[np.isfinite(ratios)]
    if len(finite) <= draws // 2:
        return Score(value, n, redrawn=kept)
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(value, n, float(low), float(high), redrawn=kept)


def n_draws(comparison: Comparison) -> int:
    """Bootstrap draws of a result, or of a quick look."""
    return QUICK_DRAWS if comparison.quick else DRAWS


def draws_kept(draws: NDArray[np.float64]) -> tuple[float, ...]:
    """The draws that a score keeps; none where one of them has no value, since draws of two scores are compared.

    >>> draws_kept(np.array([0.1, 0.2])), draws_kept(np.array([0.1, np.nan]))
    ((0.1, 0.2), ())
    """
    kept = draws[:KEPT_DRAWS]
    return tuple(float(value) for value in kept.round(9)) if np.isfinite(kept).all() else ()


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
    >>> round(score.value, 3), round(score.low, 3), round(score.high, 3), score.redrawn
    (0.6, 0.158, 1.0, (0.5, 0.6, 0.7))
    >>> mean_of_halves(Score(0.5, 10, 0.4, 0.6), [0.5, None])
    Score(value=0.5, n=10, low=0.4, high=0.6, reason='')
    """
    known = [value for value in values if value is not None]
    if own.value is None or len(known) < len(values) or len(known) < 2:
        return own
    value = float(np.mean(known))
    half = student_half(spread(known), len(known))
    if not real and own.low is not None and own.high is not None:
        half = math.hypot(half, (own.high - own.low) / 2)
    low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return Score(value, own.n, low, high, own.reason, tuple(round(each, 9) for each in known))
