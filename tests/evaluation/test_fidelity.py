"""Prevalence, rare codes, lengths, persistence and a requested prevalence, on cases solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import r2_score
from tests.evaluation.conftest import score_of, scores_of, value_of

from adapcla.data import Cohort, Prevalence
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.fidelity import ControlMAE, ControlMaxGap, ControlSpearman
from adapcla.evaluation.metric import METRICS, metrics_of


@pytest.fixture
def train() -> Cohort:
    """Four visits of three patients; prevalence A 3/4, B 2/4, C 1/4."""
    return Cohort.of([[["A", "B"], ["A"]], [["A", "B"]], [["C"]]])


def test_prevalence_by_hand(train: Cohort):
    """Synthetic prevalence A 1/2, B 1/2, D 1/2 against A 3/4, B 1/2, C 1/4, D 0."""
    made = Cohort.of([[["A", "B"]], [["D"]]])
    assert value_of("unigram_r2", train, made) == pytest.approx(r2_score([0.75, 0.5, 0.25, 0.0], [0.5, 0.5, 0.0, 0.5]))


def test_log_prevalence_adds_half_a_visit(train: Cohort):
    """Codes A, B, C: (3.5, 2.5, 1.5)/5 against, for two visits {A,B} {A,B}, (2.5, 2.5, 0.5)/3."""
    made = Cohort.of([[["A", "B"]], [["A", "B"]]], train.vocabulary)
    truth, guess = np.log(np.array([3.5, 2.5, 1.5]) / 5), np.log(np.array([2.5, 2.5, 0.5]) / 3)
    assert value_of("prevalence_log_r2", train, made) == pytest.approx(r2_score(truth, guess))


def test_codes_off_by_more_than_twice_need_patients_and_more_than_chance():
    """Of A to D, held by 40, 40, 40 and 5 of 100 patients: B comes 4 times too often, C never; D is of too few."""
    train = Cohort.of([[["A"]]] * 40 + [[["B"]]] * 20 + [[["C"]]] * 40 + [[["D"]]] * 5)
    made = Cohort.of([[["A"]]] * 21 + [[["B"]]] * 79 + [[["D"]]] * 20, train.vocabulary)
    score = score_of("prevalence_off_2x", train, made)
    assert (score.value, score.n) == (pytest.approx(2 / 3), 3)
    few = Cohort.of([[["A"]], [["B"]]], train.vocabulary)
    assert score_of("prevalence_off_2x", train, few).value == 0.0


def test_distributions_of_lengths_by_hand(train: Cohort):
    """Visits 2, 1, 1 of patients against 1, 1; codes 2, 1, 2, 1 of visits against 2, 1."""
    made = Cohort.of([[["A", "B"]], [["C"]]])
    assert value_of("visits_per_patient_tv", train, made) == pytest.approx(1 / 3)
    assert value_of("codes_per_visit_tv", train, made) == 0.0


def test_prevalence_by_stratum_needs_something_that_varies(train: Cohort):
    """Of three codes one is tail, one head: R² of one number says nothing."""
    assert scores_of("unigram_r2", train, train)["tail"].reason == "fewer than two such codes"


def test_lengths_by_hand(train: Cohort):
    """Visits per patient 2, 1, 1 (mean 4/3) against 3; codes per visit 2, 1, 2, 1 (mean 1.5) against 1."""
    made = Cohort.of([[["A"], ["A"], ["B"]]])
    assert value_of("visits_per_patient_diff", train, made) == pytest.approx(3 - 4 / 3)
    assert value_of("codes_per_visit_diff", train, made) == pytest.approx(-0.5)


def test_mass_and_coverage_by_hand(train: Cohort):
    """The tail is C. Synthetic codes A, C, C, Z: tail mass 2/4; C is covered."""
    made = Cohort.of([[["A", "C"]], [["C", "Z"]]])
    assert value_of("tail_mass", train, made) == 0.5
    assert value_of("tail_coverage", train, made) == 1.0


@pytest.mark.parametrize("key", [one.key for one in metrics_of(["fidelity"]) if not one.heldout])
def test_an_exact_copy_is_perfect(key: str):
    train = Cohort.of([[["A", "B"], ["A", "C"]], [["A", "B", "D"]], [["A"], ["B"], ["A", "B"]], [["E", "A"]]] * 11)
    one = METRICS[key]
    score = one.compute(Comparison.of(train, train, train))["all"]
    if one.goal == "up":
        assert score.value == pytest.approx(1.0)
    elif one.goal == "down" or key.endswith("_diff"):
        assert score.value == pytest.approx(0.0, abs=1e-12)


def test_intervals_narrow_with_more_patients(train: Cohort):
    draw = np.random.default_rng(1)
    many = [[[c for c in "ABC" if draw.random() < 0.5] or ["A"]] for _ in range(2000)]
    widths = []
    for n in (100, 2000):
        score = score_of("codes_per_visit_diff", train, Cohort.of(many[:n]))
        assert score.low is not None and score.high is not None
        widths.append(score.high - score.low)
    assert widths[1] < widths[0] / 2


# ---- persistence --------------------------------------------------------------------------------------------
def own(key: str, cohort: Cohort) -> float | None:
    """The value of a metric of the synthetic patients alone."""
    return value_of(key, cohort, cohort)


def test_next_visit_overlap_by_hand():
    """{A,B}→{B,C}: 1/3. {B,C}→{B,C}: 1. The second patient's one visit has no next. Mean 2/3."""
    cohort = Cohort.of([[["A", "B"], ["B", "C"], ["B", "C"]], [["A"]]])
    assert own("next_visit_jaccard", cohort) == pytest.approx(2 / 3)


def test_identical_visits_overlap_fully_with_anybody_and_remember_nothing():
    cohort = Cohort.of([[["A"], ["A"]]] * 5)
    assert own("next_visit_gain", cohort) == 0.0


def test_records_that_repeat_themselves_are_told_from_chance():
    """Each patient keeps one code of 50: next visits agree always, random ones about 1 time in 50."""
    cohort = Cohort.of([[[f"C{p % 50:02d}"]] * 2 for p in range(1000)])
    assert own("next_visit_jaccard", cohort) == 1.0
    assert own("next_visit_gain", cohort) == pytest.approx(0.98, abs=0.02)


def test_single_visits_have_no_next_and_say_so():
    score = METRICS["next_visit_jaccard"].compute(Comparison.of(*[Cohort.of([[["A"]]])] * 3))["all"]
    assert score.value is None
    assert "two visits" in score.reason


# ---- a requested prevalence ---------------------------------------------------------------------------------
MADE = Cohort.of([[["A"]], [["A", "B"]], [["A", "C"]], [["D"]]])  # A 3/4, B 1/4, C 1/4, D 1/4


def control_scores(target: Prevalence) -> dict[str, Score]:
    """The headline of every metric of the suite for the four visits above."""
    comparison = Comparison.of(MADE, MADE, MADE, target=target)
    return {metric.key: metric.compute(comparison)[ALL] for metric in metrics_of(["control"])}


def test_scores_by_hand_over_the_requested_codes_only():
    """Asked A ½, B ¼ and E ⅛; got ¾, ¼, 0: gaps ¼, 0, ⅛. C and D were not asked for."""
    found = control_scores(Prevalence.of({"A": 0.5, "B": 0.25, "E": 0.125}))
    assert found["control_mae"].value == pytest.approx(0.125)
    assert found["control_max_gap"].value == 0.25
    assert found["control_mae"].n == 3
    # Four visits: E|X − 2| = ¾ at ½, E|X − 1| = 2 · 2 · ¾ · 27/128 at ¼, and 2 · 1 · ⅞ · 4 · ⅛ · (⅞)³ at ⅛.
    gaps = [3 / 4, 3 * 27 / 128, 7 / 8 * (7 / 8) ** 3]
    assert found["control_floor"].value == pytest.approx(np.mean(gaps) / 4)
    assert found["control_spearman"].value == pytest.approx(1.0)


def test_codes_with_an_unknown_request_are_not_judged():
    target = Prevalence.of({"A": 0.75, "B": float("nan")})
    assert control_scores(target)["control_mae"].value == 0.0


def test_only_codes_that_can_be_told_from_noise_are_in_the_judged_stratum():
    """200 visits: A is asked for 100 times, B for 2."""
    made = Cohort.of([[["A"]]] * 200)
    comparison = Comparison.of(made, made, made, target=Prevalence.of({"A": 0.5, "B": 0.01}))
    found = METRICS["control_mae"].compute(comparison)
    assert found["frequent"].n == 1
    assert found["frequent"].value == 0.5
    assert found["tail"].reason == "no such code has a requested prevalence"


def test_measures_agree_with_scipy():
    draw = np.random.default_rng(2)
    wanted, got = draw.random(30), np.round(draw.random(30), 1)
    assert ControlSpearman().value_of(wanted, got) == pytest.approx(spearmanr(wanted, got).statistic)
    assert ControlMAE().value_of(wanted, got) == pytest.approx(np.abs(wanted - got).mean())
    assert ControlMaxGap().value_of(wanted, got) == np.abs(wanted - got).max()


def test_what_cannot_be_said_is_not_a_number():
    assert np.isnan(ControlSpearman().value_of(np.array([0.1, 0.2]), np.array([0.3, 0.3])))


def test_no_request_no_score():
    score = METRICS["control_mae"].compute(Comparison.of(MADE, MADE, MADE))["all"]
    assert score.value is None
    assert score.reason == "no prevalence was requested"
