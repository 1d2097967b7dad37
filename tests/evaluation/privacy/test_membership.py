"""Membership attacks: at chance without a leak, certain on copies, blind to the order of patients; likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.groups import Groups
from adapcla.evaluation.privacy.membership import (
    DATA_ATTACKS,
    NO_ATTACK_MODELS,
    NO_MODEL,
    Attacked,
    auc,
    f1_in_population,
    likelihood_ratio,
    model_scores,
    patient_features,
    shadow,
    share_caught,
)
from adapcla.io.simulator import simulate
from adapcla.seeds import random_stream

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def parts() -> tuple[Cohort, Cohort, Cohort]:
    """Members, controls and fresh patients of one distribution, with so many codes that one member alone holds some."""
    every = simulate(patients=450, codes=600, seed=5)
    return every.subset(range(150)), every.subset(range(150, 300)), every.subset(range(300, 450))


def test_features_by_hand() -> None:
    """Member {A, B, C}, control {A, D, E}; synthetic {A, B, C} and {A}.

    Nearest synthetic: 0 and 2. The member's pairs AB, AC, BC are all written.
    """
    vocabulary = list("ABCDE")
    train, control = Cohort.of([[list("ABC")]], vocabulary), Cohort.of([[list("ADE")]], vocabulary)
    made = Cohort.of([[list("ABC")], [["A"]]], vocabulary)
    features = patient_features(Groups.of(Comparison.of(train, control, made, control=control)), np.arange(2))
    assert features["nearest"].tolist() == [0.0, -2.0]
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


def test_shadow_learns_which_way_a_feature_points() -> None:
    """The second feature is lower for members, the first is noise: the regression finds it, out of fold."""
    rng = random_stream(2, "shadow")
    truth = np.arange(400) < 200
    features = np.stack([rng.normal(size=400), rng.normal(size=400) - 2.0 * truth], axis=1)
    scores = shadow(features, truth)
    area = auc(scores[truth], scores[~truth]).value
    assert area is not None and area > 0.85


def test_f1_among_a_population_by_hand() -> None:
    """Ten of 1,000 people are members. An attack that catches 8 of 10 at 1 % false alarms names 8 + 9.9 people.

    F1 = 2 · 8 / (17.9 + 10); calling everybody a member gives 2 · 10 / (1,000 + 10).
    """
    members, controls = np.array([1.0] * 8 + [0.0] * 2), np.array([1.0] + [0.0] * 99)
    best, everybody = f1_in_population(members, controls, 0.01)
    assert best == pytest.approx(16 / 27.9) and everybody == pytest.approx(20 / 1010)


def test_a_larger_population_makes_members_harder_to_find(parts: tuple[Cohort, Cohort, Cohort]) -> None:
    train, control, _ = parts
    made = train.subset(range(75))
    few, many = (Comparison.of(train, control, made, control, population=p) for p in (0, 100_000))
    found = [METRICS["membership_f1"].compute(c)[ALL] for c in (few, many)]
    assert found[0].value > found[1].value and "100,000 people" in found[1].reason
    gained = METRICS["membership_advantage"].compute(few)[ALL].value
    assert gained == pytest.approx((found[0].value - 2 / 3) / (1 / 3))


# ---- how well an attack does


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


def test_caught_at_one_in_hundred() -> None:
    """200 controls 0…199: at 1 % two may be above, so the threshold is 197; members 198 and 500 are caught, 197 not."""
    assert share_caught(np.array([197.0, 198.0, 500.0, 0.0]), np.arange(200.0)).value == 0.5


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


# ---- attacks on a model
N = 60


def _comparison(evidence: dict[str, np.ndarray]) -> Comparison:
    """60 members of one code, 60 controls of two; the synthetic patient does not matter."""
    train, control = Cohort.of([[["A"]]] * N, ["A", "B"]), Cohort.of([[["A", "B"]]] * N, ["A", "B"])
    return Comparison.of(train, control, Cohort.of([[["B"]]], ["A", "B"]), control=control, evidence=evidence)


def _memorised() -> dict[str, np.ndarray]:
    """Per code the model gives members −1 and controls −3; attack models give all −3, give or take."""
    noise = random_stream(1, "references").normal(scale=0.1, size=(2, N, 4))
    return {
        "member_log_likelihood": np.full(N, -1.0),
        "control_log_likelihood": np.full(N, -6.0),
        "member_attack_models": -3.0 + noise[0],
        "control_attack_models": 2 * (-3.0 + noise[1]),
    }


@pytest.mark.parametrize("attack", ["likelihood", "lira"])
def test_a_model_that_knows_its_members_is_caught(attack: str) -> None:
    comparison = _comparison(_memorised())
    assert METRICS[f"membership_{attack}_auc"].compute(comparison)[ALL].value == 1.0
    assert METRICS[f"membership_{attack}_caught"].compute(comparison)[ALL].value == 1.0


def test_likelihoods_are_per_code() -> None:
    """Members hold one code with −1, controls two codes with −2 together: per code nobody stands out."""
    given = {"member_log_likelihood": np.full(N, -1.0), "control_log_likelihood": np.full(N, -2.0)}
    assert METRICS["membership_likelihood_auc"].compute(_comparison(given))[ALL].value == 0.5


def test_without_a_model_or_attack_models_the_reason_is_named() -> None:
    assert METRICS["membership_lira_auc"].compute(_comparison({}))[ALL].reason == NO_MODEL.reason
    alone = {name: value for name, value in _memorised().items() if "attack_models" not in name}
    assert METRICS["membership_lira_auc"].compute(_comparison(alone))[ALL].reason == NO_ATTACK_MODELS.reason
    few = {name: value[:, :3] if "attack_models" in name else value for name, value in _memorised().items()}
    assert METRICS["membership_lira_auc"].compute(_comparison(few))[ALL].reason == "3 attack models, 4 needed"


def test_rows_that_do_not_fit_the_cohort_are_refused() -> None:
    given = _memorised()
    given["member_log_likelihood"] = given["member_log_likelihood"][1:]
    with pytest.raises(InputError, match="'member_log_likelihood' with 59 rows"):
        model_scores(_comparison(given), "likelihood")


def test_values_that_are_not_numbers_are_refused() -> None:
    given = _memorised()
    given["control_attack_models"][3, 1] = np.nan
    with pytest.raises(InputError, match="1 values not finite"):
        model_scores(_comparison(given), "lira")


def test_models_trained_on_the_patient_are_used_where_they_are_given() -> None:
    """Attack models that saw a patient give −1 per code, others −3: the model's −1 says member."""
    included = np.tile([True, True, False, False], (N, 1))
    given = _memorised()
    for side, codes in (("member", 1), ("control", 2)):
        given[f"{side}_included"] = included
        given[f"{side}_attack_models"] = given[f"{side}_attack_models"] + codes * 2.0 * included
    scores = model_scores(_comparison(given), "lira")
    assert not isinstance(scores, str)
    assert (scores[0] > 0).all() and (scores[1] < 0).all()
