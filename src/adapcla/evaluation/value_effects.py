"""Whose values: how far a code moves a number, and how far a value tells the same patient's next one.

The effect of a code on a number is the mean of the number in visits with the code less that in visits without it, in
standard deviations of training: what glucose is where diabetes is. Values outside the usual range count as its end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.intervals import jackknife_score
from adapcla.evaluation.measured import Floats, Scales, values_of
from adapcla.evaluation.numbers import jackknifed_parts, scales_of
from adapcla.evaluation.plausibility import domain_strata
from adapcla.evaluation.trajectories import Measure, weighted_correlation, weighted_difference

#: Training visits with a number that hold a code, and that do not, below which its effect is not judged.
FEWEST_VISITS = 30
#: Pairs of a value and the same patient's next one in training below which a number is not judged.
FEWEST_PAIRS = 30
#: Effects below which a stratum has nothing to compare.
FEWEST_EFFECTS = 3


class Sums(NamedTuple):
    """Codes × numbers: values in visits with the code, and their sum; then of each number, over all visits."""

    n_with: Floats
    sum_with: Floats
    n_all: Floats
    sum_all: Floats

    @classmethod
    def of(cls, cohort: Cohort, scales: Scales, codes: NDArray[np.int64], numbers: NDArray[np.int64]) -> Sums:
        """The sums of the standard values of a cohort for some codes and numbers."""
        values, shape = values_of(cohort), (cohort.n_visits, cohort.n_codes)
        where = (values.visit, values.number)
        there, value = (
            sparse.csr_matrix((entries, where), shape=shape)[:, numbers]
            for entries in (np.ones(len(values.value)), scales.standard(values))
        )
        held = cohort.matrix()[:, codes].astype(np.float64).T
        together = (np.asarray((held @ part).todense()) for part in (there, value))
        totals = (np.asarray(part.sum(axis=0), dtype=np.float64).ravel() for part in (there, value))
        return cls(*together, *totals)

    def less(self, other: Sums) -> Sums:
        """These sums without the others."""
        return Sums(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def n_without(self) -> Floats:
        """Codes × numbers: values in visits without the code."""
        return self.n_all - self.n_with

    @property
    def effects(self) -> Floats:
        """Mean with the code less mean without it; 0 where there is no visit of either kind.

        >>> Sums(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([4.0, 1.0]), np.array([4.0, 9.0])).effects
        array([[1., 0.]])
        """
        with_code = self.sum_with / np.maximum(self.n_with, 1)
        without = (self.sum_all - self.sum_with) / np.maximum(self.n_without, 1)
        # Counts are whole numbers that a subtraction may leave a hair beside.
        known = (self.n_with > 0.5) & (self.n_without > 0.5)
        return np.where(known, with_code - without, 0.0)


class Effects(NamedTuple):
    """The effects of training, how well it knows them (0: too few visits), and the sums of the synthetic patients."""

    codes: NDArray[np.int64]
    numbers: NDArray[np.int64]
    truth: Floats
    weight: Floats
    #: Of all synthetic patients, then without each jackknife group.
    guesses: list[Floats]


def value_effect_corr(comparison: Comparison) -> dict[str, Score]:
    """Correlation of the effects of codes on numbers with those of training."""
    return _effect_scores(comparison, weighted_correlation, (-1.0, 1.0))


def value_effect_error(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of the effects of codes on numbers from those of training."""
    return _effect_scores(comparison, weighted_difference, POSITIVE)


def _effect_scores(comparison: Comparison, measure: Measure, bounds: tuple[float, float]) -> dict[str, Score]:
    """A measure of effects over all pairs, those with codes of each domain, and those of single numbers."""
    scales = scales_of(comparison)
    if isinstance(scales, Missing):
        return {ALL: scales.score}
    found = comparison.once(_effects)
    rows = {name: mask[found.codes] for name, mask in domain_strata(comparison).items()}
    columns = {name: found.numbers == number for name, number in scales.strata(comparison.whole.train).items()}
    masks = {ALL: found.weight > 0}
    masks |= {name: masks[ALL] & mask[:, None] for name, mask in rows.items() if mask.any()}
    masks |= {name: masks[ALL] & mask[None, :] for name, mask in columns.items()}
    out = {}
    for stratum, mask in masks.items():
        n = int(mask.sum())
        if n < FEWEST_EFFECTS:
            reason = f"{n} pairs of a code and a number in {FEWEST_VISITS} training visits, {FEWEST_EFFECTS} needed"
            out[stratum] = Missing(f"insufficient data: {reason}", n).score
            continue
        value, *without = (measure(found.truth[mask], guess[mask], found.weight[mask]) for guess in found.guesses)
        out[stratum] = jackknife_score(value, n, without, bounds, "no code moves a number")
    return out


def _effects(comparison: Comparison) -> Effects:
    """The effects of codes on numbers in training and in synthetic patients."""
    scales, train = scales_of(comparison), comparison.whole.train
    assert isinstance(scales, Scales)
    codes = np.flatnonzero(~train.vocabulary.numbers & (train.visit_counts >= FEWEST_VISITS))
    numbers = np.flatnonzero(scales.judged)
    known = Sums.of(train, scales, codes, numbers)
    enough = (known.n_with >= FEWEST_VISITS) & (known.n_without >= FEWEST_VISITS)
    weight = np.where(enough, known.n_with * known.n_without / np.maximum(known.n_all, 1), 0.0)
    whole = Sums.of(comparison.whole.synthetic, scales, codes, numbers)
    parts = (Sums.of(part, scales, codes, numbers) for part in jackknifed_parts(comparison))
    guesses = [whole.effects, *(whole.less(part).effects for part in parts)]
    return Effects(codes, numbers, known.effects, weight, guesses)


# ---- from visit to visit ------------------------------------------------------------------------------------
def value_steps(cohort: Cohort, scales: Scales) -> Floats:
    """Numbers × 6: pairs of a value and the same patient's next one, sums of both, of squares and of products."""
    values = values_of(cohort)
    order = np.lexsort((values.visit, values.patient, values.number))
    number, patient, standard = values.number[order], values.patient[order], scales.standard(values)[order]
    step = np.flatnonzero((number[1:] == number[:-1]) & (patient[1:] == patient[:-1]))
    x, y = standard[step], standard[step + 1]
    parts = (np.ones(len(step)), x, y, x * x, y * y, x * y)
    return np.stack([np.bincount(number[step], weights=part, minlength=cohort.n_codes) for part in parts], axis=1)


def correlations(steps: Floats) -> Floats:
    """The correlation of each number with itself at the next visit that has it; 0 where nothing varies or repeats.

    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0])
    >>> correlations(np.array([[3, x.sum(), y.sum(), x @ x, y @ y, x @ y]])).round(9).tolist()
    [0.5]
    """
    n, x, y, xx, yy, xy = np.moveaxis(steps, -1, 0)
    n = np.maximum(n, 1)
    spread = (xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2)
    known = (n > 1.5) & (spread > 1e-12)
    return np.where(known, np.clip((xy / n - x * y / n**2) / np.sqrt(np.where(known, spread, 1.0)), -1, 1), 0.0)


def value_autocorr(comparison: Comparison) -> dict[str, Score]:
    """Correlation of a value with the same patient's next value of that number, mean over the numbers."""
    return _step_scores(comparison, _mean_guess, (-1.0, 1.0))


def value_autocorr_error(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of these correlations from those of training."""
    return _step_scores(comparison, weighted_difference, (0.0, 2.0))


def _mean_guess(truth: Floats, guess: Floats, weight: Floats) -> float:
    """The weighted mean of the synthetic side alone."""
    return float(np.average(guess, weights=weight))


def _step_scores(comparison: Comparison, measure: Measure, bounds: tuple[float, float]) -> dict[str, Score]:
    """A measure of correlations from visit to visit, weighted by training pairs; over all numbers and single ones."""
    scales = scales_of(comparison)
    if isinstance(scales, Missing):
        return {ALL: scales.score}
    known, guesses = comparison.once(_steps)
    weight = np.where(scales.judged & (known[:, 0] >= FEWEST_PAIRS), known[:, 0], 0.0)
    truth, out = correlations(known), {}
    alone = {name: np.arange(len(weight)) == number for name, number in scales.strata(comparison.whole.train).items()}
    for stratum, mask in ({ALL: weight > 0} | alone).items():
        here = mask & (weight > 0)
        if not here.any():
            n = int(known[mask, 0].sum())
            reason = f"{n} pairs of training values of one patient, {FEWEST_PAIRS} needed"
            out[stratum] = Missing(f"insufficient data: {reason}", n).score
            continue
        value, *without = (measure(truth[here], guess[here], weight[here]) for guess in guesses)
        out[stratum] = jackknife_score(value, int(here.sum()), without, bounds, "nothing repeats")
    return out


def _steps(comparison: Comparison) -> tuple[Floats, list[Floats]]:
    """The steps of training; and the correlations of synthetic patients, then without each jackknife group."""
    scales = scales_of(comparison)
    assert isinstance(scales, Scales)
    whole = value_steps(comparison.whole.synthetic, scales)
    parts = (value_steps(part, scales) for part in jackknifed_parts(comparison))
    guesses = [correlations(whole), *(correlations(whole - part) for part in parts)]
    return value_steps(comparison.whole.train, scales), guesses
