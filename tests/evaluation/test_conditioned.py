"""Scores of patients of a condition, on cohorts that can be counted by eye."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import UsageError
from adapcla.evaluation.conditioned import compare_condition, condition_scores, divergence, holdings, marked_visits
from adapcla.evaluation.statistics import PairCounts

WITH_X = Criteria.of("X")


def cohort(n: int, friend: str = "F") -> Cohort:
    sex = Attribute((np.arange(n) % 2).astype(np.int16), ("F", "M"))
    return Cohort.of([[["B"], ["X", friend], ["A"]]] * n, ["A", "B", "F", "G", "X"], attributes={"sex": sex})


def test_equal_cohorts_differ_in_nothing() -> None:
    scores = condition_scores(cohort(20), cohort(20), WITH_X)
    assert list(scores) == ["same_visit", "before", "after", "sex", "length"]
    assert all(score.value == 0 for score in scores.values())


def test_other_codes_beside_are_as_far_as_can_be_and_the_rest_is_equal() -> None:
    scores = condition_scores(cohort(20), cohort(20, friend="G"), WITH_X)
    assert scores["same_visit"].value == pytest.approx(np.log(2))
    assert scores["before"].value == scores["after"].value == scores["length"].value == 0


def test_what_stands_beside_one_code_is_its_context_divergence() -> None:
    draw = np.random.default_rng(1)
    one, two = (
        Cohort.of([[["X", *draw.choice(list("ABFG"), 2)]] for _ in range(30)], ["A", "B", "F", "G", "X"])
        for _ in range(2)
    )
    context = PairCounts.count(one).contexts.divergence(PairCounts.count(two).contexts)[one.vocabulary.index["X"]]
    assert condition_scores(one, two, WITH_X)["same_visit"].value == pytest.approx(context)


def test_patients_without_the_code_are_scored_by_any_one_visit() -> None:
    without = Cohort.of([[["A"], ["B"], ["F"]]] * 40, ["A", "B", "F", "G", "X"])
    marked = marked_visits(without, WITH_X, seed=1).reshape(40, 3)
    assert (marked.sum(axis=1) == 1).all() and (marked.sum(axis=0) > 0).all()
    assert holdings(without, WITH_X)["same_visit"].sum() == 40


def test_what_is_missing_is_said() -> None:
    single = Cohort.of([[["X"]]] * 5, ["A", "B", "F", "G", "X"])
    scores = condition_scores(cohort(20), single, WITH_X)
    assert scores["same_visit"].value is None and "compared" in scores["same_visit"].reason
    assert scores["sex"].value is None
    assert np.isnan(divergence(np.zeros(2), np.ones(2)))


def test_all_rows_have_as_many_patients() -> None:
    scores = compare_condition(WITH_X, cohort(50), cohort(60), {"on demand": cohort(500), "other": cohort(500, "G")})
    assert (scores.n_real, scores.n_each) == (30, 30)
    assert list(scores.rows) == ["real", "copies", "on demand", "other"]
    assert {score.n for row in scores.rows.values() for score in row.values()} == {30}
    assert "| on demand | 30 | 0.000" in scores.table.markdown()
    assert scores.as_json()["rows"]["other"]["same_visit"]["value"] == pytest.approx(np.log(2))


def test_few_held_out_patients_are_not_compared_with() -> None:
    with pytest.raises(UsageError, match="fewer than 30 held-out patients are with X"):
        compare_condition(WITH_X, cohort(50), cohort(29), {})
