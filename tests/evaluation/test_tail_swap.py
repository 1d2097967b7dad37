"""Tail swap scores: means over cases, intervals over patients, and a reason where no model was asked."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.tail_swap import NO_MODEL, swap_scores

COHORT = Cohort.of([[["A", "B"]], [["A"]]])


def cases(n: int, patients: int) -> dict[str, np.ndarray]:
    """Cases of several patients: those of even patients are won, those of odd ones lost; one in ten is of training."""
    patient = np.arange(n) % patients
    columns = {
        "held_out": np.arange(n) % 10 > 0,
        "patient": patient,
        "count": 1 + np.arange(n) % 100,
        "met": np.arange(n) % 3 == 0,
        "auc": (patient % 2 == 0).astype(float),
        "lift": np.where(patient % 2 == 0, 1.0, -1.0),
    }
    return {f"tail_swap_{name}": values for name, values in columns.items()}


def test_without_evidence_there_is_a_reason() -> None:
    assert swap_scores("auc", Comparison.of(COHORT, COHORT, COHORT)) == {ALL: NO_MODEL.score}


def test_many_cases_of_few_patients_are_little_evidence() -> None:
    few, many = (
        swap_scores("auc", Comparison.of(COHORT, COHORT, COHORT, evidence=cases(4000, n)))[ALL] for n in (8, 800)
    )
    assert few.n == many.n == 3600
    widths = [score.high - score.low for score in (few, many)]
    assert widths[0] > 4 * widths[1]


def test_strata_divide_the_cases_and_training_is_apart() -> None:
    comparison = Comparison.of(COHORT, COHORT, COHORT, evidence=cases(1000, 50))
    scores = swap_scores("auc", comparison)
    assert scores["met"].n + scores["never met"].n == scores[ALL].n == 900
    assert sum(scores[band].n for band in ("1-5", "6-20", "21-100")) == 900
    assert scores["1-5:met"].n + scores["1-5:never met"].n == scores["1-5"].n
    assert swap_scores("auc", comparison, held_out=False)[ALL].n == 100
    assert swap_scores("lift", comparison)[ALL].value == pytest.approx(2 * scores[ALL].value - 1)


def test_a_side_without_cases_says_so() -> None:
    nobody = {name: values[:0] for name, values in cases(10, 5).items()}
    score = swap_scores("auc", Comparison.of(COHORT, COHORT, COHORT, evidence=nobody))[ALL]
    assert score.value is None and score.reason == "no such case"
