"""Are the values of labs and other numbers those of real patients, for whom, and from visit to visit?

Training patients are the truth of every score; numbers of fewer than eleven training patients are not evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.bootstrap import PatientSums
from adapcla.evaluation.comparison import ALL, Comparison, Mask, Missing, TrainingSummary
from adapcla.evaluation.metric import POSITIVE, SIGNED, CountMetric, RatioMetric, Value
from adapcla.evaluation.statistics import Floats, SortedValues, Sums, quantile_distance, weighted_correlation

#: The share of the training values below and above the usual range of a number.
OUTSIDE = 0.001
#: Numbers that are scored one by one: those that most training patients have.
N_SHOWN = 20


#: Training visits with a number that hold a code, and that do not, below which its effect is not evaluated.
FEWEST_VISITS = 30
#: Pairs of a value and the same patient's next one in training below which a number is not evaluated.
FEWEST_PAIRS = 30
#: Effects below which a stratum has nothing to compare.
FEWEST_EFFECTS = 3


class Values(NamedTuple):
    """Every value of a cohort: which number it is, its visit, its patient and the value itself."""

    number: NDArray[np.int64]
    visit: NDArray[np.int64]
    patient: NDArray[np.int64]
    value: Floats

    def at(self, rows: NDArray[np.int64] | Mask) -> Values:
        """Some of the values, by position or by mask."""
        return Values(self.number[rows], self.visit[rows], self.patient[rows], self.value[rows])


def values_of(cohort: Cohort) -> Values:
    """The values of a cohort, in the order of its entries.

    >>> from adapcla.data.vocabulary import Code
    >>> lab = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
    >>> cohort = Cohort.of([[["A", "LAB/glucose"]]], ["A", lab], values=np.array([np.nan, 99], dtype=np.float32))
    >>> values_of(cohort).value.tolist()
    [99.0]
    """
    if cohort.values is None:
        nothing = np.zeros(0, dtype=np.int64)
        return Values(nothing, nothing, nothing, np.zeros(0))
    here = np.flatnonzero(np.isfinite(cohort.values))
    return Values(
        np.asarray(cohort.codes)[here].astype(np.int64),
        cohort.visit_of_entry[here],
        cohort.patient_of_entry[here],
        np.asarray(cohort.values)[here].astype(np.float64),
    )


@dataclass(frozen=True, eq=False)
class ValueScales:
    """What training says of each number, by position in the vocabulary; numbers of few patients are not evaluated."""

    evaluated: Mask
    #: The usual range: all but one value in a thousand at either end, and at least `MIN_COUNT` patients beyond.
    low: Floats
    high: Floats
    #: Interquartile range; where that is 0, the standard deviation; where that is 0 too, 1.
    spread: Floats
    #: Mean and standard deviation of the values inside the usual range.
    mean: Floats
    deviation: Floats
    #: The stratum and the position of each number that is scored by itself: those that most patients have, most first.
    strata: dict[str, int]

    @classmethod
    def of(cls, train: Cohort) -> ValueScales:
        """The scales of a training cohort."""
        values, n = values_of(train), train.n_codes
        evaluated = train.vocabulary.numbers & (train.patient_counts >= MIN_COUNT)
        low, high, spread, mean, deviation = (np.full(n, fill) for fill in (-np.inf, np.inf, 1.0, 0.0, 1.0))
        for number, own in by_number(values):
            if not evaluated[number]:
                continue
            low[number], high[number] = usual_range(own.value, own.patient)
            first, third = np.quantile(own.value, [0.25, 0.75])
            spread[number] = (third - first) or own.value.std() or 1.0
            inside = np.clip(own.value, low[number], high[number])
            mean[number], deviation[number] = inside.mean(), inside.std() or 1.0
        order = np.argsort(-train.patient_counts, kind="stable")
        shown = {f"number:{train.vocabulary.tokens[k]}": int(k) for k in order[evaluated[order]][:N_SHOWN]}
        return cls(evaluated, low, high, spread, mean, deviation, shown)

    def standard(self, values: Values) -> Floats:
        """The values in standard deviations from the training mean; what lies outside the range is at its end."""
        number = values.number
        inside = np.clip(values.value, self.low[number], self.high[number])
        return (inside - self.mean[number]) / self.deviation[number]


def by_number(values: Values) -> list[tuple[int, Values]]:
    """The values of each number that has any, in the order of numbers.

    >>> both = Values(np.array([4, 2, 4]), np.arange(3), np.arange(3), np.array([1.0, 2.0, 3.0]))
    >>> [(number, own.value.tolist()) for number, own in by_number(both)]
    [(2, [2.0]), (4, [1.0, 3.0])]
    """
    order = np.argsort(values.number, kind="stable")
    numbers, first = np.unique(values.number[order], return_index=True)
    parts = np.split(order, first[1:])
    return [(int(number), values.at(part)) for number, part in zip(numbers, parts, strict=False)]


def usual_range(value: Floats, patient: NDArray[np.int64]) -> tuple[float, float]:
    """The ends between which all but one value in a thousand lie, with enough patients at or beyond either end.

    >>> usual_range(np.arange(100.0), np.arange(100))
    (10.0, 89.0)
    """
    ends = []
    for sign, share in ((1.0, OUTSIDE), (-1.0, 1 - OUTSIDE)):
        # The least value of each patient: what counts is how many patients lie beyond, not how many values.
        _, who = np.unique(patient, return_inverse=True)
        least = np.full(int(who.max()) + 1, np.inf)
        np.minimum.at(least, who, sign * value)
        enough = np.sort(least)[min(MIN_COUNT, len(least)) - 1]
        ends.append(sign * max(enough, sign * float(np.quantile(value, share))))
    return float(ends[0]), float(ends[1])


def scales_of(comparison: Comparison) -> ValueScales | Missing:
    """What training says of its numbers; or why nothing is evaluated."""
    if comparison.with_values is None:
        return Missing(
            "no values: the training, the test or the synthetic patients have numbers as plain codes, or none"
        )
    scales = comparison.training.once(ValueScales.of)
    return scales if scales.evaluated.any() else Missing("no number of enough training patients")


# ---- distributions ------------------------------------------------------------------------------------------
class NumberValues:
    """The sorted values of each evaluated number."""

    of_values: ClassVar[bool] = True
    sampled: ClassVar[bool] = True

    def __init__(self, of_number: dict[int, SortedValues]) -> None:
        self.of_number = of_number

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> NumberValues:
        """The values of a cohort."""
        evaluated = training.once(ValueScales.of).evaluated
        numbers = by_number(values_of(cohort))
        return cls({number: SortedValues.of(own.value) for number, own in numbers if evaluated[number]})

    def __add__(self, other: NumberValues) -> NumberValues:
        numbers, nothing = sorted({*self.of_number, *other.of_number}), SortedValues(np.zeros(0))
        parts = {n: self.of_number.get(n, nothing) + other.of_number.get(n, nothing) for n in numbers}
        return NumberValues(parts)

    def __sub__(self, other: NumberValues) -> NumberValues:
        nothing = SortedValues(np.zeros(0))
        return NumberValues({n: own - other.of_number.get(n, nothing) for n, own in self.of_number.items()})


class ValueDistance(CountMetric[NumberValues]):
    """Mean distance between equal quantiles of values and those of training, in interquartile ranges of training.

    The headline is the mean over the evaluated numbers that were generated.
    """

    key, suite, goal, bounds, unit, sized = "value_w1", "numbers", "down", POSITIVE, "interquartile ranges", True
    statistic = NumberValues

    def values(self, made: NumberValues, comparison: Comparison) -> dict[str, Value]:
        """The mean over the numbers, and the distance of single ones."""
        scales, reason = scales_of(comparison), "no such value was generated"
        if isinstance(scales, Missing):
            return {ALL: Value.missing(scales.reason)}
        real = comparison.counts(NumberValues, "train").of_number
        distances = {
            number: quantile_distance(own.values, real[number].values) / scales.spread[number]
            for number, own in made.of_number.items()
        }
        mean = float(np.mean(list(distances.values()))) if distances else float("nan")
        out = {ALL: Value(mean, len(distances), reason)}
        for stratum, number in scales.strata.items():
            n = len(made.of_number[number].values) if number in distances else 0
            out[stratum] = Value(distances.get(number, float("nan")), n, reason)
        return out


class ValueInRange(RatioMetric):
    """Share of the values inside the range of all but a few training values."""

    key, suite, goal = "value_in_range", "numbers", "match"

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Values inside and values of each synthetic patient, of all numbers and of single ones."""
        scales = scales_of(comparison)
        if isinstance(scales, Missing):
            return {ALL: scales}
        values = values_of(comparison.whole.synthetic)
        values = values.at(scales.evaluated[values.number])
        inside = (values.value >= scales.low[values.number]) & (values.value <= scales.high[values.number])
        masks = {ALL: np.ones(len(inside), dtype=bool)}
        masks |= {name: values.number == number for name, number in scales.strata.items()}
        n = comparison.synthetic.n_patients
        return {
            name: PatientSums(
                np.bincount(values.patient[mask & inside], minlength=n),
                np.bincount(values.patient[mask], minlength=n),
                "no such value was generated",
            )
            for name, mask in masks.items()
        }


# ---- effects of codes ---------------------------------------------------------------------------------------
# The effect of a code on a number is the mean of the number in visits with the code less that in visits without it, in
# standard deviations of training: what glucose is where diabetes is. Values outside the usual range count as its end.
def _effect_codes(train: Cohort) -> NDArray[np.int64]:
    """The codes whose effects are looked at."""
    return np.flatnonzero(~train.vocabulary.numbers & (train.visit_counts >= FEWEST_VISITS))


@dataclass(frozen=True, eq=False)
class EffectSums(Sums):
    """Codes × numbers: values in visits with the code, and their sum; then of each number, over all visits."""

    of_values: ClassVar[bool] = True
    n_with: Floats
    sum_with: Floats
    n_all: Floats
    sum_all: Floats

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> EffectSums:
        """The sums of the standardised values of a cohort."""
        scales, codes = training.once(ValueScales.of), training.once(_effect_codes)
        numbers = np.flatnonzero(scales.evaluated)
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

    @property
    def n_without(self) -> Floats:
        """Codes × numbers: values in visits without the code."""
        return self.n_all - self.n_with

    @property
    def effects(self) -> Floats:
        """Mean with the code less mean without it; 0 where there is no visit of either kind.

        >>> some, all_of_them = np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([[4.0, 1.0], [4.0, 9.0]])
        >>> EffectSums(some[:1], some[1:], *all_of_them).effects
        array([[1., 0.]])
        """
        with_code = self.sum_with / np.maximum(self.n_with, 1)
        without = (self.sum_all - self.sum_with) / np.maximum(self.n_without, 1)
        # Counts are whole numbers that a subtraction may leave a hair beside.
        known = (self.n_with > 0.5) & (self.n_without > 0.5)
        return np.where(known, with_code - without, 0.0)


class ValueEffectCorrelation(CountMetric[EffectSums]):
    """Correlation of the effects of codes on numbers with those of training."""

    key, suite, goal, bounds, unit, sized = "value_effect_corr", "numbers", "up", SIGNED, "r", True
    statistic = EffectSums

    def values(self, made: EffectSums, comparison: Comparison) -> dict[str, Value]:
        """The correlation over all pairs, those with codes of each domain, and those of single numbers."""
        scales = scales_of(comparison)
        if isinstance(scales, Missing):
            return {ALL: Value.missing(scales.reason)}
        real = comparison.counts(EffectSums, "train")
        enough = (real.n_with >= FEWEST_VISITS) & (real.n_without >= FEWEST_VISITS)
        weight = np.where(enough, real.n_with * real.n_without / np.maximum(real.n_all, 1), 0.0)
        codes, numbers = comparison.training.once(_effect_codes), np.flatnonzero(scales.evaluated)
        masks = {ALL: weight > 0}
        for name, mask in comparison.training.domains.items():
            if mask[codes].any():
                masks[name] = masks[ALL] & mask[codes][:, None]
        masks |= {n: masks[ALL] & (numbers == number)[None, :] for n, number in scales.strata.items()}
        truth, guess, out = real.effects, made.effects, {}
        for stratum, mask in masks.items():
            n = int(mask.sum())
            if n < FEWEST_EFFECTS:
                reason = f"{n} pairs of a code and a number in {FEWEST_VISITS} training visits, {FEWEST_EFFECTS} needed"
                out[stratum] = Value.missing(f"insufficient data: {reason}", n)
                continue
            value = weighted_correlation(truth[mask], guess[mask], weight[mask])
            out[stratum] = Value(value, n, "no code moves a number")
        return out


# ---- from visit to visit ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class StepSums(Sums):
    """Numbers × 6: pairs of a value and the same patient's next one, sums of both, of squares and of products."""

    of_values: ClassVar[bool] = True
    sums: Floats

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> StepSums:
        """The sums of the standardised values of a cohort."""
        return cls(value_steps(cohort, training.once(ValueScales.of)))


def value_steps(cohort: Cohort, scales: ValueScales) -> Floats:
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


class ValueAutocorrelationError(CountMetric[StepSums]):
    """Mean absolute difference from training of the correlations of a value with the same patient's next one."""

    key, suite, goal, bounds, unit, sized = "value_autocorr_error", "numbers", "down", (0.0, 2.0), "r", True
    statistic = StepSums

    def values(self, made: StepSums, comparison: Comparison) -> dict[str, Value]:
        """The difference over all numbers, weighted by training pairs, and of single ones."""
        scales = scales_of(comparison)
        if isinstance(scales, Missing):
            return {ALL: Value.missing(scales.reason)}
        known = comparison.counts(StepSums, "train").sums
        weight = np.where(scales.evaluated & (known[:, 0] >= FEWEST_PAIRS), known[:, 0], 0.0)
        error = np.abs(correlations(made.sums) - correlations(known))
        masks = {ALL: weight > 0}
        masks |= {name: np.arange(len(weight)) == number for name, number in scales.strata.items()}
        out = {}
        for stratum, mask in masks.items():
            here = mask & (weight > 0)
            if not here.any():
                n = int(known[mask, 0].sum())
                reason = f"{n} pairs of training values of one patient, {FEWEST_PAIRS} needed"
                out[stratum] = Value.missing(f"insufficient data: {reason}", n)
                continue
            out[stratum] = Value(float(np.average(error[here], weights=weight[here])), int(here.sum()))
        return out
