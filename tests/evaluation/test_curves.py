"""Weighted curves: agreement with scikit-learn, cases on paper, bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

from adapcla.evaluation import curves

REFERENCE = {
    curves.accuracy: lambda y, p, w: accuracy_score(y, p >= 0.5, sample_weight=w),
    curves.f1: lambda y, p, w: f1_score(y, p >= 0.5, sample_weight=w, zero_division=0),
    curves.average_precision: lambda y, p, w: average_precision_score(y, p, sample_weight=w),
    curves.roc_area: lambda y, p, w: roc_auc_score(y, p, sample_weight=w),
}


@st.composite
def cases(draw):
    """Truths of both kinds, scores with many ties, weights with zeros that leave both kinds."""
    n = draw(st.integers(2, 40))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    truth = random.integers(0, 2, n).astype(np.uint8)
    truth[:2] = 0, 1
    score = np.round(random.random(n), draw(st.integers(0, 3)))
    weights = random.poisson(1.0, (n, 3))
    weights[:2] = 1
    return truth, score, weights


@pytest.mark.parametrize("statistic", REFERENCE, ids=lambda statistic: statistic.__name__)
@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_every_weighting_gives_what_scikit_learn_gives(statistic, case):
    truth, score, weights = case
    expected = [REFERENCE[statistic](truth, score, column) for column in weights.T]
    found = statistic(truth, score, weights)
    assert found == pytest.approx(expected, abs=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


def test_a_case_on_paper():
    """Order by score: 1, 0, 1, 0. Precision at the hits: 1/1 and 2/3, so AUPRC = (1 + 2/3)/2 = 5/6.

    Of the four pairs of a positive and a negative three are in order: AUROC = 3/4.
    """
    truth, score, ones = np.array([1, 0, 1, 0], np.uint8), np.array([0.9, 0.8, 0.7, 0.1]), np.ones((4, 1), int)
    assert curves.average_precision(truth, score, ones)[0] == pytest.approx(5 / 6)
    assert curves.roc_area(truth, score, ones)[0] == pytest.approx(3 / 4)


def test_one_kind_of_patient_has_no_ranking():
    none, score, ones = np.zeros(3, np.uint8), np.array([0.1, 0.2, 0.3]), np.ones((3, 2), int)
    assert np.isnan(curves.average_precision(none, score, ones)).all()
    assert np.isnan(curves.roc_area(none, score, ones)).all()
    assert curves.f1(none, score, ones).tolist() == [0.0, 0.0]


def test_a_constant_score_is_chance():
    truth, score, ones = np.array([1, 0, 0, 0], np.uint8), np.zeros(4), np.ones((4, 1), int)
    assert curves.average_precision(truth, score, ones)[0] == pytest.approx(0.25)
    assert curves.roc_area(truth, score, ones)[0] == pytest.approx(0.5)
