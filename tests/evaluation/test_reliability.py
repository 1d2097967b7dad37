"""Calibration: cases on paper, agreement with scikit-learn, bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as reference_log_loss

from adapcla import Cohort
from adapcla.data import LabelRule
from adapcla.evaluation import reliability
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.utility import Prediction, balanced_predictions, natural_predictions

KEYS = ("ece", "brier", "nll")


def compared(probability: np.ndarray, truth: np.ndarray, intervals: bool = True) -> Comparison:
    """A comparison whose natural-prevalence predictions are given instead of learned."""
    n, n_labels = probability.shape
    # Nobody has any of the labels, so that the first third of them makes up the tail.
    cohort = LabelRule.of({f"label{k}": [f"X{k}"] for k in range(n_labels)}).label(Cohort.of([[["A"]]] * n))
    comparison = Comparison.of(cohort, cohort, cohort, intervals=intervals)
    predicted = [Prediction(k, np.arange(n), truth[:, k], probability[:, k]) for k in range(n_labels)]
    comparison._work[natural_predictions,] = predicted
    return comparison


def test_equal_width_error_on_paper():
    """15 bins of width 1/15. Two pairs at 0.05 (bin 1), one of them positive: gap |0.5 − 0.05| = 0.45.

    Two at 0.50 (bin 8), both positive: gap 0.5. ECE = (2 × 0.45 + 2 × 0.5) / 4 = 0.475.
    """
    probability, truth = np.array([0.05, 0.05, 0.5, 0.5]), np.array([1, 0, 1, 1], np.uint8)
    assert reliability.calibration_error(probability, truth) == pytest.approx(0.475)


def test_equal_mass_error_on_paper():
    """Two bins of two pairs: {0.1, 0.2} with one positive, gap 0.35; {0.3, 0.4} with none, gap 0.35: ECE = 0.35.

    Equally wide, all four share one bin: mean probability 0.25, share 0.25, ECE = 0.
    """
    probability, truth = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 0, 0, 0], np.uint8)
    assert reliability.calibration_error(probability, truth, n_bins=2, equal_mass=True) == pytest.approx(0.35)
    assert reliability.calibration_error(probability, truth, n_bins=2) == pytest.approx(0.0)


def test_the_diagram_counts_every_pair_once_and_leaves_empty_bins_open():
    bins = reliability.reliability_bins(np.array([0.0, 0.5, 1.0, 1.0]), np.array([0, 1, 1, 0]), n_bins=4)
    assert bins["n"].tolist() == [1, 0, 1, 2]
    assert np.isnan(bins["observed"][1])
    assert bins["low"].tolist() == [0.0, 0.25, 0.5, 0.75]


def test_certain_and_right_is_0_and_certain_and_wrong_is_the_worst():
    truth = np.array([[1, 0, 1]] * 10, np.uint8)
    for probability, worst in ((truth.astype(float), False), (1.0 - truth, True)):
        comparison = compared(probability, truth)
        for key in KEYS:
            metric = METRICS[key]
            expected = metric.bounds[1] if worst else 0.0
            assert metric.compute(comparison)["all"].value == pytest.approx(expected, abs=1e-6)


@st.composite
def predictions(draw):
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = draw(st.integers(2, 30)), draw(st.integers(3, 6))
    probability = np.round(random.random(shape), draw(st.integers(1, 6)))
    return probability, random.integers(0, 2, shape).astype(np.uint8)


@given(pair=predictions())
@settings(max_examples=40, deadline=None)
def test_scores_are_in_bounds_ordered_and_agree_with_scikit_learn(pair):
    probability, truth = pair
    comparison = compared(probability, truth)
    flat = np.clip(probability.ravel(), reliability.CLIP, 1 - reliability.CLIP)
    expected = {
        "brier": brier_score_loss(truth.ravel(), probability.ravel(), pos_label=1),
        "nll": reference_log_loss(truth.ravel(), flat, labels=[0, 1]),
    }
    for key in KEYS:
        scores = METRICS[key].compute(comparison)
        low, high = METRICS[key].bounds
        assert set(scores) == {"all", "tail"}
        assert scores["all"].n == probability.size
        assert scores["tail"].n == len(probability) * (probability.shape[1] // 3)
        for score in scores.values():
            assert low <= score.low <= score.high <= high + 1e-9
            assert low <= score.value <= high + 1e-9
        if key in expected:
            assert scores["all"].value == pytest.approx(expected[key], abs=1e-9)


@given(pair=predictions(), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_order_of_patients_does_not_matter(pair, seed):
    probability, truth = pair
    order = np.random.default_rng(seed).permutation(len(probability))
    for equal_mass in (False, True):
        value = reliability.calibration_error(probability, truth, equal_mass=equal_mass)
        assert reliability.calibration_error(probability[order], truth[order], equal_mass=equal_mass) == pytest.approx(
            value
        )


def test_intervals_hold_the_value_and_narrow_with_more_patients():
    random = np.random.default_rng(1)
    widths = []
    for n in (200, 5_000):
        probability = random.random((n, 3))
        truth = (random.random((n, 3)) < probability**2).astype(np.uint8)
        for key in KEYS:
            score = METRICS[key].compute(compared(probability, truth))["all"]
            assert score.low <= score.value <= score.high
        widths.append(score.high - score.low)
    assert widths[1] < widths[0] / 3


def test_without_predictions_every_score_says_why():
    cohort = Cohort.of([[["A"]]] * 3)
    comparison = Comparison.of(cohort, cohort, cohort)
    for key in KEYS:
        for score in METRICS[key].compute(comparison).values():
            assert score.value is None and "synthetic patients" in score.reason


def test_the_balanced_form_pools_the_patients_of_each_label_on_paper():
    """Label 0 is judged on patients 0 and 1, label 1 on patient 2 alone: squared errors .01, .25 and .16."""
    cohort = LabelRule.of({"a": ["X"], "b": ["Y"]}).label(Cohort.of([[["A"]]] * 3))
    comparison = Comparison.of(cohort, cohort, cohort, intervals=False)
    comparison._work[balanced_predictions,] = [
        Prediction(0, np.array([0, 1]), np.array([1, 0], np.uint8), np.array([0.9, 0.5])),
        Prediction(1, np.array([2]), np.array([1], np.uint8), np.array([0.6])),
    ]
    brier = METRICS["brier_balanced"].compute(comparison)["all"]
    assert (brier.value, brier.n) == (pytest.approx(0.42 / 3), 3)
    nll = METRICS["nll_balanced"].compute(comparison)["all"].value
    assert nll == pytest.approx(-np.log([0.9, 0.5, 0.6]).mean())
    # Bins of a fifteenth: .5 is alone (gap .5), .6 alone (gap .4), .9 alone (gap .1).
    assert METRICS["ece_balanced"].compute(comparison)["all"].value == pytest.approx(1.0 / 3)
