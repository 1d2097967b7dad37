"""Telling synthetic from real patients."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.discriminator import FEWEST, discriminator_auc, feature_importance
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


def test_patients_of_the_same_law_are_told_apart_by_chance_alone():
    score = discriminator_auc(comparison(patients(150, seed=2)))["all"]
    assert 0.38 < score.value < 0.62
    assert score.low <= 0.5 <= score.high
    assert score.n == 300


def test_a_code_that_real_patients_never_have_gives_everybody_away_and_is_named():
    made = comparison(patients(150, seed=3, extra=True))
    scores = discriminator_auc(made)
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
    score = discriminator_auc(comparison(patients(60, seed=2)))["gaps"]
    assert score.value is None
    assert "days" in score.reason


def test_a_handful_of_patients_says_nothing():
    few = comparison(patients(FEWEST - 1, seed=2))
    score = discriminator_auc(few)["all"]
    assert score.value is None
    assert score.reason == f"fewer than {FEWEST} synthetic patients"
    assert feature_importance(few) == []


def test_the_same_seed_gives_the_same_numbers():
    one, two = (discriminator_auc(comparison(patients(80, seed=2))) for _ in range(2))
    assert one == two


def test_real_against_real_stands_beside_it():
    scores = evaluate(patients(50, seed=5), patients(200, seed=6), patients(100, seed=7), ["discriminator"], quick=True)
    row = scores.row("discriminator_auc", "matched")
    assert row.real_test == pytest.approx(0.5, abs=0.15)
    assert row.value == pytest.approx(0.5, abs=0.15)
