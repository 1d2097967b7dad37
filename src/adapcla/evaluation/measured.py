"""The numbers of a cohort as flat arrays, and what training says of each: its scale, its range, whom it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: The share of the training values below and above the usual range of a number.
OUTSIDE = 0.001
#: Quantiles that two distributions are compared at.
N_QUANTILES = 1_000
#: Numbers that are scored one by one: those that most training patients have.
N_SHOWN = 20


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
class Scales:
    """What training says of each number, by position in the vocabulary; numbers of few patients are not judged."""

    judged: Mask
    #: The usual range: all but one value in a thousand at either end, and at least `SMALLEST_COUNT` patients beyond.
    low: Floats
    high: Floats
    #: Interquartile range; where that is 0, the standard deviation; where that is 0 too, 1.
    spread: Floats
    #: Mean and standard deviation of the values inside the usual range.
    mean: Floats
    deviation: Floats
    #: The judged numbers that most patients have, most first.
    shown: NDArray[np.int64]

    @classmethod
    def of(cls, train: Cohort) -> Scales:
        """The scales of a training cohort."""
        values, n = values_of(train), train.n_codes
        judged = train.vocabulary.numbers & (train.patient_counts >= MIN_COUNT)
        low, high, spread, mean, deviation = (np.full(n, fill) for fill in (-np.inf, np.inf, 1.0, 0.0, 1.0))
        for number, own in by_number(values):
            if not judged[number]:
                continue
            low[number], high[number] = usual_range(own.value, own.patient)
            first, third = np.quantile(own.value, [0.25, 0.75])
            spread[number] = (third - first) or own.value.std() or 1.0
            inside = np.clip(own.value, low[number], high[number])
            mean[number], deviation[number] = inside.mean(), inside.std() or 1.0
        order = np.argsort(-train.patient_counts, kind="stable")
        return cls(judged, low, high, spread, mean, deviation, order[judged[order]][:N_SHOWN])

    def standard(self, values: Values) -> Floats:
        """The values in standard deviations from the training mean; what lies outside the range is at its end."""
        number = values.number
        inside = np.clip(values.value, self.low[number], self.high[number])
        return (inside - self.mean[number]) / self.deviation[number]

    def strata(self, cohort: Cohort) -> dict[str, int]:
        """The stratum of each number that is scored by itself."""
        return {f"number:{cohort.vocabulary.tokens[number]}": int(number) for number in self.shown}


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


def quantiles(ordered: Floats) -> Floats:
    """The value at the middle of each of `N_QUANTILES` equal parts of sorted values.

    >>> quantiles(np.array([1.0, 3.0])).mean()
    np.float64(2.0)
    """
    middle = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    return np.asarray(ordered[(middle * len(ordered)).astype(np.int64)])


def quantile_distance(one: Floats, two: Floats) -> float:
    """The mean distance between equal quantiles of two sorted arrays: Wasserstein-1, on a grid of quantiles.

    >>> quantile_distance(np.array([1.0, 3.0]), np.array([2.0, 2.0, 5.0, 5.0]))
    1.5
    """
    return float(np.abs(quantiles(one) - quantiles(two)).mean()) if len(one) and len(two) else float("nan")
