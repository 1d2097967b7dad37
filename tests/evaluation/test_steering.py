"""Requested against achieved prevalence, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import spearmanr

from adapcla.data import Cohort, Prevalence
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.fidelity import divergence, max_gap, mean_gap, rank_correlation
from adapcla.evaluation.metric import METRICS, metrics_of

MADE = Cohort.of([[["A"]], [["A", "B"]], [["A", "C"]], [["D"]]])  # A 3/4, B 1/4, C 1/4, D 1/4


def scores_of(target: Prevalence) -> dict[str, Score]:
    """The headline of every metric of the suite for the four visits above."""
    comparison = Comparison.of(MADE, MADE, MADE, target=target)
    return {metric.key: metric.compute(comparison)[ALL] for metric in metrics_of(["control"])}


def test_scores_by_hand_over_the_requested_codes_only():
    """Asked A ½, B ¼ and E ⅛; got ¾, ¼, 0: gaps ¼, 0, ⅛. C and D were not asked for."""
    found = scores_of(Prevalence.of({"A": 0.5, "B": 0.25, "E": 0.125}))
    assert found["control_mae"].value == pytest.approx(0.125)
    assert found["control_max_gap"].value == 0.25
    assert found["control_mae"].n == 3
    # Four visits: E|X − 2| = ¾ at ½, E|X − 1| = 2 · 2 · ¾ · 27/128 at ¼, and 2 · 1 · ⅞ · 4 · ⅛ · (⅞)³ at ⅛.
    gaps = [3 / 4, 3 * 27 / 128, 7 / 8 * (7 / 8) ** 3]
    assert found["control_floor"].value == pytest.approx(np.mean(gaps) / 4)
    wanted, got = np.array([0.5, 0.25, 0.125]), np.array([0.75, 0.25, 0.0])
    assert found["control_jsd"].value == pytest.approx(jensenshannon(wanted, got) ** 2)
    assert found["control_spearman"].value == pytest.approx(1.0)


def test_codes_with_an_unknown_request_are_not_judged():
    target = Prevalence.of({"A": 0.75, "B": float("nan")})
    assert scores_of(target)["control_mae"].value == 0.0


def test_only_codes_that_can_be_told_from_noise_are_in_the_judged_stratum():
    """200 visits: A is asked for 100 times, B for 2."""
    made = Cohort.of([[["A"]]] * 200)
    comparison = Comparison.of(made, made, made, target=Prevalence.of({"A": 0.5, "B": 0.01}))
    found = METRICS["control_mae"].compute(comparison)
    assert found["judged"].n == 1
    assert found["judged"].value == 0.5
    assert found["tail"].reason == "no such code has a requested prevalence"


def test_measures_agree_with_scipy():
    draw = np.random.default_rng(2)
    wanted, got = draw.random(30), np.round(draw.random(30), 1)
    assert divergence(wanted, got) == pytest.approx(jensenshannon(wanted, got) ** 2)
    assert rank_correlation(wanted, got) == pytest.approx(spearmanr(wanted, got).statistic)
    assert mean_gap(wanted, got) == pytest.approx(np.abs(wanted - got).mean())
    assert max_gap(wanted, got) == np.abs(wanted - got).max()


def test_what_cannot_be_said_is_not_a_number():
    assert np.isnan(rank_correlation(np.array([0.1, 0.2]), np.array([0.3, 0.3])))
    assert np.isnan(divergence(np.array([0.1]), np.array([0.0])))


def test_no_request_no_score():
    score = METRICS["control_mae"].compute(Comparison.of(MADE, MADE, MADE))["all"]
    assert score.value is None
    assert score.reason == "no prevalence was asked for"
