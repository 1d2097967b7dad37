"""Whether a trained generator knows the planted law: its next-visit probabilities against the true ones, by stratum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.study.analysis.cases import Predictor
from adapcla.study.analysis.histories import true_next_visit

#: The row that says what the prevalences of training alone give.
PREVALENCE = "prevalence"


def mean_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The mean Spearman correlation of the rows of two matrices; rows without variation are left out.

    >>> mean_correlation(np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[2.0, 4, 9], [3, 2, 1]]))
    0.0
    >>> mean_correlation(np.ones((1, 3)), np.array([[2.0, 4, 9]]))
    nan
    """
    ranks = [rankdata(matrix, axis=1) for matrix in (first, second)]
    left, right = (r - r.mean(axis=1, keepdims=True) for r in ranks)
    size = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    varied = size > 0
    return float(((left * right).sum(1)[varied] / size[varied]).mean()) if varied.any() else float("nan")


def agreements(learned: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, float]:
    """How well two (histories, codes) matrices of probabilities agree.

    Over all cells they can agree by prevalences alone, and inside a history too; inside a code they cannot.
    """
    return {
        "all_cells": float(spearmanr(learned.ravel(), truth.ravel()).statistic),
        "inside_a_history": mean_correlation(learned, truth),
        "inside_a_code": mean_correlation(learned.T, truth.T),
    }


def law_table(train: Cohort, histories: Cohort, methods: Mapping[str, Predictor]) -> pl.DataFrame:
    """Spearman's correlation of next-visit probabilities with the law, by method, stratum and world.

    The law of another world on the same codes is the counter-example.
    """
    truths = {
        "own": true_next_visit(histories),
        "another": true_next_visit(histories, other_world=True),
    }
    strata = train.strata()
    codes = {"head": strata.head, "mid": strata.mid, "tail": strata.tail, "head and mid": strata.head | strata.mid}
    prevalence = np.nan_to_num(train.prevalence().share)
    known: dict[str, Predictor] = {PREVALENCE: lambda cohort: np.tile(prevalence, (cohort.n_patients, 1))}
    rows = []
    for method, predictor in {**known, **methods}.items():
        learned = np.asarray(predictor(histories), dtype=np.float64)
        for stratum, mask in codes.items():
            for world, truth in truths.items():
                if truth is None:
                    raise UsageError("the law of these patients is not known\nto do: analyse patients of `simulate`")
                agreement = agreements(learned[:, mask], truth[:, mask])
                rows.append(
                    {"method": method, "stratum": stratum, "codes": int(mask.sum()), "world": world, **agreement}
                )
    return pl.DataFrame(rows)
