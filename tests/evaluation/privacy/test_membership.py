"""How well scores tell members from controls, and the attacks on likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from adapcla.errors import InputError
from adapcla.evaluation.privacy.membership import auc, calibrated, caught, likelihood_per_code, likelihood_ratio
from adapcla.seeds import random_stream

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=20)


@given(SCORES, SCORES)
def test_area_is_that_of_scikit_learn(members: list[float], controls: list[float]) -> None:
    expected = roc_auc_score([1] * len(members) + [0] * len(controls), members + controls)
    assert auc(np.array(members), np.array(controls)).value == pytest.approx(expected)


def test_interval_covers_chance_nineteen_times_in_twenty() -> None:
    """Scores that know nothing: of 400 intervals about 380 hold ½ (five deviations are 22)."""
    covered = 0
    for draw in range(400):
        values = random_stream(1, "coverage", draw).normal(size=(2, 100))
        score = auc(values[0], values[1])
        covered += bool(score.low is not None and score.high is not None and score.low <= 0.5 <= score.high)
    assert 358 <= covered <= 400


def test_scores_of_two_halves_are_less_sure() -> None:
    values = random_stream(1, "halves").normal(size=(2, 100))
    one, two = auc(values[0], values[1]), auc(values[0], values[1], halves=True)
    assert one.low is not None and two.low is not None and one.value is not None
    assert (one.value - two.low) == pytest.approx(np.sqrt(2) * (one.value - one.low))


def test_perfect_separation_leaves_a_doubt() -> None:
    score = auc(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    assert score.value == 1.0
    assert score.low is not None and score.low < 1.0


def test_caught_at_one_in_hundred() -> None:
    """200 controls 0…199: at 1 % two may be above, so the threshold is 197; members 198 and 500 are caught, 197 not."""
    assert caught(np.array([197.0, 198.0, 500.0, 0.0]), np.arange(200.0)).value == 0.5


def test_ties_with_controls_are_not_caught() -> None:
    assert caught(np.ones(10), np.ones(200)).value == 0.0


def test_length_alone_says_nothing_per_code() -> None:
    assert likelihood_per_code(np.array([-2.0, -20.0]), np.array([1, 10])).tolist() == [-2.0, -2.0]


def test_calibration_removes_what_is_easy_for_every_model() -> None:
    """An easy record (−1 under all) scores 0, a remembered one (−1 here, −5 elsewhere) scores 4."""
    assert calibrated(np.array([-1.0, -1.0]), np.array([[-1.0, -1.0], [-5.0, -5.0]])).tolist() == [0.0, 4.0]


def test_likelihood_ratio_by_hand() -> None:
    """Means out −2 and in 2 with pooled deviation √2 for either, as each row spreads by ±1 around its means.

    At 0 the two laws are equally likely; at 2 the log ratio is ((2 + 2)² − 0)/(2·2) = 4.
    """
    attack_models = np.array([[-3.0, -1.0, 1.0, 3.0]] * 2)
    included = np.array([[False, False, True, True]] * 2)
    assert likelihood_ratio(np.array([0.0, 2.0]), attack_models, included) == pytest.approx([0.0, 4.0])


def test_without_models_that_knew_the_patient_distance_counts() -> None:
    """Deviations (−1, −1, 1, 1) with three degrees of freedom: variance 4/3."""
    found = likelihood_ratio(np.array([2.0]), np.array([[-1.0, -1.0, 1.0, 1.0]]))
    assert found == pytest.approx([2.0 / np.sqrt(4 / 3)])


def test_a_patient_in_every_attack_model_does_not_break_the_ratio() -> None:
    attack_models = np.array([[1.0, 2.0, 3.0, 4.0], [-3.0, -1.0, 1.0, 3.0]])
    included = np.array([[True] * 4, [False, False, True, True]])
    assert np.isfinite(likelihood_ratio(np.array([0.0, 0.0]), attack_models, included)).all()


def test_fewer_than_four_attack_models_are_refused() -> None:
    with pytest.raises(InputError, match="3 attack models"):
        likelihood_ratio(np.zeros(2), np.zeros((2, 3)))


def test_the_ratio_reads_members_that_likelihood_alone_does_not() -> None:
    """Records differ much in difficulty; a model that saw a record likes it one unit more than one that did not."""
    rng = random_stream(3, "lira")
    difficulty = rng.normal(scale=10, size=400)
    included = rng.random((400, 8)) < 0.5
    attack_models = difficulty[:, None] + included + 0.3 * rng.normal(size=(400, 8))
    member = np.arange(400) < 200
    target = difficulty + member + 0.3 * rng.normal(size=400)
    ratio = likelihood_ratio(target, attack_models, included)
    plain, strong = auc(target[member], target[~member]).value, auc(ratio[member], ratio[~member]).value
    assert plain is not None and plain < 0.65
    assert strong is not None and strong > 0.95
