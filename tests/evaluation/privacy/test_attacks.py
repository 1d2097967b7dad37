"""Membership attacks on data alone: at chance without a leak, certain on copies, blind to the order of patients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.attacks import (
    DATA_ATTACKS,
    Attacked,
    patient_features,
    rare_code_scores,
    shadow,
    strongest,
)
from adapcla.evaluation.privacy.membership import auc
from adapcla.evaluation.privacy.strata import Groups
from adapcla.io import simulator as planted
from adapcla.seeds import random_stream


@pytest.fixture(scope="module")
def parts() -> tuple[Cohort, Cohort, Cohort]:
    """Members, controls and fresh patients of one law, with so many codes that one member alone holds some."""
    every = planted.simulate(patients=450, codes=600, seed=5)
    return every.subset(range(150)), every.subset(range(150, 300)), every.subset(range(300, 450))


def test_features_by_hand() -> None:
    """Member {A, B, C}, control {A, D, E}; synthetic {A, B, C} and {A}.

    Nearest synthetic: 0 and 2; the nearest other real patient is 4 away for both. Within 4 lie both synthetic
    patients for both (2 + 1 more codes at most) against one real. The member's pairs AB, AC, BC are all emitted.
    """
    vocabulary = list("ABCDE")
    train, control = Cohort.of([[list("ABC")]], vocabulary), Cohort.of([[list("ADE")]], vocabulary)
    made = Cohort.of([[list("ABC")], [["A"]]], vocabulary)
    features = patient_features(Groups.of(Comparison.of(train, control, made, control=control)), 1)
    assert features["nearest"].tolist() == [0.0, -2.0]
    assert features["calibrated"].tolist() == [4.0, 2.0]
    assert features["density"] == pytest.approx([np.log(3 / 2)] * 2)
    assert features["copies"] == pytest.approx([np.log(2), 0.0])
    # Six own pairs, half of them emitted: 3 hits where 1½ are expected with deviation √¾, and 0 hits.
    assert features["pairs"] == pytest.approx([1.5 / np.sqrt(0.75), -1.5 / np.sqrt(0.75)])
    # Real holders: A 2, all others 1. Synthetic holders: A 2, B 1, C 1, D 0, E 0.
    assert features["rare_codes"] == pytest.approx([0.0, -2 * np.log(2)])


def test_copies_of_members_are_read_by_the_strongest_attack(parts: tuple[Cohort, Cohort, Cohort]) -> None:
    train, control, _ = parts
    comparison = Comparison.of(train, control, train, control=control)
    area = METRICS["membership_auc"].compute(comparison)[ALL]
    assert area.value is not None and area.value > 0.97
    assert area.reason.startswith("strongest attack: ")
    assert (METRICS["membership_caught"].compute(comparison)[ALL].value or 0) > 0.5


def test_strongest_is_the_highest_of_the_registered_ones(parts: tuple[Cohort, Cohort, Cohort]) -> None:
    train, control, fresh = parts
    comparison = Comparison.of(train, control, fresh, control=control)
    each = [METRICS[f"membership_{name}_auc"].compute(comparison)[ALL].value for name in DATA_ATTACKS]
    assert METRICS["membership_auc"].compute(comparison)[ALL].value == max(value or 0 for value in each)
    assert strongest({"a": Score(0.6, 1), "b": Score(0.5, 1)})[0] == "a"


def test_members_and_controls_trade_places(parts: tuple[Cohort, Cohort, Cohort]) -> None:
    """With members and controls exchanged every plain attack's area is one less the area."""
    train, control, fresh = parts
    one = Attacked.of(Comparison.of(train, control, fresh, control=control))
    other = Attacked.of(Comparison.of(control, train, fresh, control=train))
    for name in set(DATA_ATTACKS) - {"shadow"}:
        there, back = auc(*one.split(name, ALL)).value, auc(*other.split(name, ALL)).value
        assert there is not None and back is not None
        assert there == pytest.approx(1 - back)


@settings(max_examples=5)
@given(st.integers(0, 10_000))
def test_permuting_patients_changes_nothing_in_the_suite(parts: tuple[Cohort, Cohort, Cohort], seed: int) -> None:
    rng = random_stream(seed, "permute")
    turned = [cohort.subset(rng.permutation(cohort.n_patients)) for cohort in parts]
    plain, other = (Comparison.of(a, b, c, control=b) for a, b, c in (parts, tuple(turned)))
    for metric in METRICS.values():
        if metric.suite == "privacy":
            assert metric.compute(plain) == metric.compute(other), metric.key


def test_a_train_copy_is_worst_on_every_score_with_a_value(parts: tuple[Cohort, Cohort, Cohort]) -> None:
    train, control, fresh = parts
    copied, honest = (Comparison.of(train, control, made, control=control) for made in (train, fresh))
    for metric in METRICS.values():
        if metric.suite != "privacy" or metric.key == "halo_membership_accuracy":
            continue
        worst, fine = metric.compute(copied)[ALL].value, metric.compute(honest)[ALL].value
        if worst is not None and fine is not None:
            assert worst >= fine, metric.key
            assert metric.bounds[0] <= worst <= metric.bounds[1]


def test_rare_codes_common_in_synthetic_say_member() -> None:
    """One real and seven synthetic holders: log 8 − log 2 = log 4; a code that is not rare says nothing."""
    x = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 1.0]]))
    scores = rare_code_scores(x, np.array([True, False]), np.array([1, 50]), np.array([7, 0]))
    assert scores == pytest.approx([np.log(4), 0.0])


def test_shadow_learns_which_way_a_feature_points() -> None:
    """The second feature is lower for members, the first is noise: the regression finds it, out of fold."""
    rng = random_stream(2, "shadow")
    truth = np.arange(400) < 200
    features = np.stack([rng.normal(size=400), rng.normal(size=400) - 2.0 * truth], axis=1)
    scores = shadow(features, truth)
    area = auc(scores[truth], scores[~truth]).value
    assert area is not None and area > 0.85


def test_shadow_is_at_chance_on_noise() -> None:
    features = random_stream(4, "noise").normal(size=(1000, 3))
    truth = np.arange(1000) < 500
    scores = shadow(features, truth)
    area = auc(scores[truth], scores[~truth]).value
    assert area is not None and abs(area - 0.5) < 0.08
