"""Whether a model knows which rare code belongs into a visit, from what the model said of swapped codes.

Metrics know no generator, so its maker hands the outcomes over in `Comparison.evidence`, one row a case (a visit with a
rare code, against the same visit with other codes as rare in its place); `generators.tail_swap` makes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.data.prevalence import RARE_BANDS
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.intervals import ratio_scores

NO_MODEL = Missing(
    "no swapped codes were judged: this needs the model, with a likelihood; tail_information needs patients only"
)


def swap_scores(column: str, comparison: Comparison, *, held_out: bool = True) -> dict[str, Score]:
    """The mean of a column over the cases of held-out (or of training) patients, by stratum; n is the cases.

    >>> from adapcla.data import Cohort
    >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
    >>> cases = {"held_out": [True] * 3, "patient": [0, 0, 1], "count": [1, 7, 7], "met": [True, False, False]}
    >>> given = {f"tail_swap_{name}": np.array(values) for name, values in {**cases, "auc": [1.0, 0.5, 0.0]}.items()}
    >>> scores = swap_scores("auc", Comparison.of(cohort, cohort, cohort, evidence=given))
    >>> scores["all"].value, scores["all"].n, scores["6-20"].value, scores["never met"].value
    (0.5, 3, 0.25, 0.25)
    """
    given = comparison.evidence
    if f"tail_swap_{column}" not in given:
        return {ALL: NO_MODEL.score}
    side = np.asarray(given["tail_swap_held_out"]) == held_out
    patient, count, met, values = (
        np.asarray(given[f"tail_swap_{name}"])[side] for name in ("patient", "count", "met", column)
    )
    strata = _strata(count, met)
    row = np.unique(patient, return_inverse=True)[1]
    inside = np.stack(list(strata.values()), axis=1).astype(np.float64)
    tops, bottoms = (np.zeros((int(row.max(initial=-1)) + 1, len(strata))) for _ in range(2))
    np.add.at(tops, row, inside * values[:, None])
    np.add.at(bottoms, row, inside)
    return dict(
        zip(strata, ratio_scores(comparison, tops, bottoms, ["no such case"] * len(strata), judges=True), strict=True)
    )


def _strata(count: NDArray[np.int64], met: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """The cases of each band of counts, and of those whose code met a partner of the visit in training or never did."""
    bands = {name: (count >= low) & (count <= high) for name, (low, high) in RARE_BANDS.items()}
    bands = {ALL: np.ones(len(count), dtype=bool), **bands}
    halves = {"met": met, "never met": ~met}
    both = {
        (half if band == ALL else f"{band}:{half}"): a & b for band, a in bands.items() for half, b in halves.items()
    }
    return bands | both
