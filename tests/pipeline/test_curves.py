from __future__ import annotations

import numpy as np
import pytest

from adapcla.evaluation import Comparison
from adapcla.files import read_json
from adapcla.io.simulator import simulate
from adapcla.pipeline.curves import curves_of, roc


def test_the_curve_of_a_perfect_attack_goes_through_the_corner():
    """All members above all controls: everybody is found before the first false alarm."""
    alarms, caught = roc(np.array([5.0, 6.0]), np.array([1.0, 2.0]))
    assert 1.0 in caught[alarms == 0]


def test_the_area_under_the_curve_is_the_chance_of_the_right_order():
    rng = np.random.default_rng(1)
    members, controls = rng.normal(0.5, 1, 400), rng.normal(0, 1, 300)
    alarms, caught = roc(members, controls)
    area = float(np.trapezoid(caught, alarms))
    assert area == pytest.approx((members[:, None] > controls[None, :]).mean(), abs=0.01)


def test_only_the_asked_suites_leave_curves():
    cohort = simulate(patients=60, codes=60, seed=1)
    assert curves_of(Comparison.of(cohort, cohort, cohort, quick=True), ["tail"]) == {}


def test_a_scored_sample_has_its_curves_beside_it(finished_run):
    curves = read_json(finished_run / "adapcla" / "seed1" / "scores" / "seed1" / "curves.json")
    assert set(curves) == {"reliability", "reliability_balanced", "labels", "roc", "feature_importance"}
    assert {"feature", "alone", "lost"} <= set(curves["feature_importance"][0])
    bins = curves["reliability"]["all"]
    assert len(bins["n"]) == 15 and sum(bins["n"]) > 0
    assert curves["roc"]["alarms"][0] == 0 and curves["roc"]["caught"][-1] == 1


def test_curves_of_scores_that_are_left_out_train_no_classifier(monkeypatch):
    cohort = simulate(patients=60, codes=60, seed=1)
    trained = []
    monkeypatch.setattr("adapcla.evaluation.utility.fit_classifiers", lambda *words, **options: trained.append(words))
    comparison = Comparison.of(cohort, cohort, cohort, quick=True)
    assert curves_of(comparison, ["utility", "reliability"], ["tstr_acc", "ece", "ece_balanced"]) == {}
    assert not trained
