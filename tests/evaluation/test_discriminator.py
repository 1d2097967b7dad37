"""Telling synthetic from real patients."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.discriminator import (
    FEWEST,
    KINDS,
    Columns,
    DiscriminatorAUC,
    PatientFeatures,
    feature_importance,
)
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.runner import evaluate


def patients(n: int, seed: int, extra: bool = False) -> Cohort:
    """One to three visits of two of six codes; with `extra`, each visit also holds a code that others do not have."""
    draw = np.random.default_rng(seed)
    names = ["A", "B", "C", "D", "E", "F"]
    rows = [
        [[*draw.choice(names, 2, replace=False), *(["Z"] if extra else [])] for _ in range(draw.integers(1, 4))]
        for _ in range(n)
    ]
    return Cohort.of(rows, [*names, "Z"])


REAL = patients(150, seed=1)


def comparison(synthetic: Cohort) -> Comparison:
    return Comparison.of(REAL, REAL, synthetic, quick=True)


def test_patients_of_the_same_distribution_are_told_apart_by_chance_alone():
    score = DiscriminatorAUC().compute(comparison(patients(150, seed=2)))["all"]
    assert 0.38 < score.value < 0.62
    assert score.low <= 0.5 <= score.high
    assert score.n == 300


def test_a_code_that_real_patients_never_have_tells_everybody_apart_and_is_named():
    made = comparison(patients(150, seed=3, extra=True))
    scores = DiscriminatorAUC().compute(made)
    assert scores["all"].value == scores["codes"].value == 1.0
    # Every visit has three codes instead of two.
    assert scores["sizes"].value == 1.0
    rows = feature_importance(made)
    assert {"Z", "largest visit"} <= {row["feature"] for row in rows if row["alone"] == 1.0}
    z = next(row for row in rows if row["feature"] == "Z")
    assert z["real"] == 0.0
    assert z["synthetic"] > 0.9
    assert rows == sorted(rows, key=lambda row: -row["lost"])
    assert rows[0]["lost"] > 0.4


def test_a_cohort_without_days_has_no_gaps_to_look_at():
    score = DiscriminatorAUC().compute(comparison(patients(60, seed=2)))["gaps"]
    assert score.value is None
    assert "days" in score.reason


def test_a_handful_of_patients_says_nothing():
    few = comparison(patients(FEWEST - 1, seed=2))
    score = DiscriminatorAUC().compute(few)["all"]
    assert score.value is None
    assert score.reason == f"fewer than {FEWEST} synthetic patients"
    assert feature_importance(few) == []


def test_the_same_seed_gives_the_same_numbers():
    one, two = (DiscriminatorAUC().compute(comparison(patients(80, seed=2))) for _ in range(2))
    assert one == two


def test_real_against_real_stands_beside_it():
    scores = evaluate(patients(50, seed=5), patients(200, seed=6), patients(100, seed=7), ["discriminator"], quick=True)
    row = scores.row("discriminator_auc", "matched")
    assert row.real_test == pytest.approx(0.5, abs=0.15)
    assert row.value == pytest.approx(0.5, abs=0.15)


def test_a_value_below_one_half_is_no_better_than_one_above():
    """A discriminator that is always wrong knows the answer, too: the goal is what real patients have."""
    assert METRICS["discriminator_auc"].goal == "match"


def test_the_classifier_is_fitted_once_for_a_comparison_and_not_for_twelve_halves(monkeypatch: pytest.MonkeyPatch):
    from adapcla.evaluation import discriminator

    made: list[int] = []
    real = discriminator.experiment
    monkeypatch.setattr(discriminator, "experiment", lambda comparison: made.append(1) or real(comparison))
    evaluate(patients(50, seed=5), patients(120, seed=6), patients(60, seed=7), ["discriminator"], quick=True)
    # All patients, and matched numbers of the synthetic ones and of three references.
    assert len(made) == 5


# ---- features -----------------------------------------------------------------------------------------------
DAYS = np.array([0, 10, 40, 0], dtype=np.int32)
COHORT = Cohort.of([[["A", "B"], ["B"], ["B", "C"]], [["C"]]], days=DAYS)


def column(name: str, cohort: Cohort = COHORT) -> list[float]:
    features = PatientFeatures.of(cohort, Columns.of(COHORT))
    return features.values[:, features.names.index(name)].tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("visits", [3, 1]),
        ("codes", [5, 1]),
        ("different codes", [3, 1]),
        ("codes held again", [0.4, 0]),
        ("largest visit", [2, 1]),
        ("smallest visit", [1, 1]),
        ("first visit", [2, 1]),
        ("days in all", [40, -1]),
        ("mean gap", [20, -1]),
        ("longest gap", [30, -1]),
        ("shortest gap", [10, -1]),
        # {A,B} and {B} share one of two codes, {B} and {B,C} too.
        ("overlap with the next visit", [0.5, 0]),
        ("B", [3, 0]),
        ("A + B", [1, 0]),
        ("B + C", [1, 0]),
    ],
)
def test_columns_by_hand(name: str, expected: list[float]):
    assert column(name) == pytest.approx(expected)


def test_every_column_has_a_kind_and_a_name_of_its_own():
    features = PatientFeatures.of(COHORT, Columns.of(COHORT))
    assert set(features.kinds) == set(KINDS)
    assert len(set(features.names)) == len(features.names) == features.values.shape[1]
    assert np.isfinite(features.values).all()


def test_without_days_there_are_no_gaps():
    cohort = Cohort.of([[["A"], ["B"]]])
    assert "gaps" not in PatientFeatures.of(cohort, Columns.of(cohort)).kinds


def test_pairs_that_stand_together_are_usual_and_others_are_not():
    """A and B are always together, as are C and D; a patient who mixes them has unusual pairs."""
    cohort = Cohort.of([[["A", "B"]], [["C", "D"]]] * 20)
    strange = Cohort.of([[["A", "B"]], [["A", "C"]]]).on(cohort.vocabulary)
    features = PatientFeatures.of(strange, Columns.of(cohort))
    usual, unusual = features.values[:, features.names.index("mean log lift of pairs")]
    assert usual == pytest.approx(np.log(20.5 / (20 * 20 / 40 + 0.5)))
    assert unusual == pytest.approx(np.log(0.5 / (20 * 20 / 40 + 0.5)))
