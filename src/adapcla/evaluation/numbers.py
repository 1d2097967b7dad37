"""The numbers suite: are the values of labs and other numbers those of real patients, for whom and from visit to visit?

Training patients are the truth of every score; numbers of fewer than eleven training patients are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.intervals import groups_of, jackknife_score, ratio_scores
from adapcla.evaluation.measured import Floats, Scales, Values, by_number, quantile_distance, values_of

#: No synthetic patient, or no training patient, has any value to speak of.
NO_VALUES = "no values: the training, the test or the synthetic patients have numbers as plain codes, or none"


def scales_of(comparison: Comparison) -> Scales | Missing:
    """What training says of its numbers; or why nothing is judged."""
    if comparison.natural is None:
        return Missing(NO_VALUES)
    scales = comparison.of_cohort(Scales.of, comparison.natural.train)
    return scales if scales.judged.any() else Missing("no number of enough training patients")


def synthetic_values(comparison: Comparison) -> Values:
    """The values of the synthetic patients."""
    return values_of(comparison.whole.synthetic)


def jackknifed_parts(comparison: Comparison) -> Iterator[Cohort]:
    """The synthetic patients of each jackknife group, with their values; nothing where no interval is wanted."""
    groups = groups_of(comparison)
    for group in range(0 if groups is None else int(groups.max()) + 1):
        yield comparison.whole.synthetic.subset(np.flatnonzero(groups == group))


def groups_of_patients(comparison: Comparison) -> NDArray[np.int64]:
    """The jackknife group of each synthetic patient; one group of all where no interval is wanted."""
    groups = groups_of(comparison)
    return np.zeros(comparison.synthetic.n_patients, dtype=np.int64) if groups is None else groups


# ---- distributions ------------------------------------------------------------------------------------------
def value_distance(comparison: Comparison) -> dict[str, Score]:
    """Mean distance between equal quantiles of synthetic and training values, in interquartile ranges of training.

    The headline is the mean over the judged numbers that were generated; `values_left_out` tells how many were not.
    """
    scales = scales_of(comparison)
    if isinstance(scales, Missing):
        return {ALL: scales.score}
    distances = comparison.once(_distances)
    whole = [value for value, _, _ in distances.values()]
    rests = zip(*(rest for _, rest, _ in distances.values()), strict=True)
    without = [float(np.mean(rest)) for rest in rests]
    mean = float(np.mean(whole)) if whole else float("nan")
    out = {ALL: jackknife_score(mean, len(whole), without, POSITIVE, "no such value was generated")}
    for stratum, number in scales.strata(comparison.whole.train).items():
        value, rest, n = distances.get(number, (float("nan"), [], 0))
        out[stratum] = jackknife_score(value, n, rest, POSITIVE, "no such value was generated")
    return out


def _distances(comparison: Comparison) -> dict[int, tuple[float, list[float], int]]:
    """For each judged number that was generated: its distance, that without each jackknife group, and its values."""
    scales = scales_of(comparison)
    assert isinstance(scales, Scales)
    truth = comparison.of_cohort(_ordered, comparison.whole.train)
    groups, wanted = groups_of_patients(comparison), groups_of(comparison) is not None
    out = {}
    for number, own in by_number(comparison.once(synthetic_values)):
        if not scales.judged[number]:
            continue
        order = np.argsort(own.value, kind="stable")
        value, group = own.value[order], groups[own.patient[order]]
        parts = [value, *((value[group != g] for g in range(int(groups.max()) + 1)) if wanted else ())]
        all_of_them, *rest = (quantile_distance(part, truth[number]) / scales.spread[number] for part in parts)
        out[number] = (all_of_them, rest, len(value))
    return out


def _ordered(cohort: Cohort) -> dict[int, Floats]:
    """The sorted values of each number."""
    return {number: np.sort(own.value) for number, own in by_number(values_of(cohort))}


def values_left_out(comparison: Comparison) -> dict[str, Score]:
    """Share of the judged numbers of which no value was generated."""
    scales = scales_of(comparison)
    if isinstance(scales, Missing):
        return {ALL: scales.score}
    values, groups = comparison.once(synthetic_values), groups_of_patients(comparison)
    n_groups, n_codes = int(groups.max()) + 1, len(scales.judged)
    cells = groups[values.patient] * n_codes + values.number
    held = np.bincount(cells, minlength=n_groups * n_codes).reshape(n_groups, n_codes)[:, scales.judged]
    rests = [held.sum(axis=0) - part for part in held] if n_groups > 1 else []
    value, *without = (float((counts == 0).mean()) for counts in (held.sum(axis=0), *rests))
    return {ALL: jackknife_score(value, int(scales.judged.sum()), without, (0.0, 1.0), "no number is judged")}


def value_in_range(comparison: Comparison) -> dict[str, Score]:
    """Share of the synthetic values inside the usual range of training, which all but a few training values are in."""
    scales = scales_of(comparison)
    if isinstance(scales, Missing):
        return {ALL: scales.score}
    values = comparison.once(synthetic_values)
    values = values.at(scales.judged[values.number])
    inside = (values.value >= scales.low[values.number]) & (values.value <= scales.high[values.number])
    strata = scales.strata(comparison.whole.train)
    n, masks = comparison.synthetic.n_patients, [np.ones(len(inside), dtype=bool)]
    masks += [values.number == number for number in strata.values()]
    bottoms = np.stack([np.bincount(values.patient[mask], minlength=n) for mask in masks], axis=1).astype(float)
    tops = np.stack([np.bincount(values.patient[mask & inside], minlength=n) for mask in masks], axis=1).astype(float)
    scores = ratio_scores(comparison, tops, bottoms, ["no such value was generated"] * len(masks))
    return dict(zip([ALL, *strata], scores, strict=True))
