"""Days between visits, new codes by age, time until them, effects of one code on another, broken rules; by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import score_of, scores_of, value_of

from adapcla.data import Attribute, Code, Cohort
from adapcla.data.vocabulary import visit_kind_code
from adapcla.evaluation.comparison import TrainingSummary
from adapcla.evaluation.course import FEWEST, EffectCounts, Histories, Watched, log_odds_ratio, survival


# ---- days between visits ------------------------------------------------------------------------------------
def pairs(n: int, gap: int) -> Cohort:
    """Patients of two visits, `gap` days apart."""
    return Cohort.of([[["A"], ["B"]]] * n, ["A", "B", "C"], days=np.tile([0, gap], n).astype(np.int32))


def test_gaps_that_are_all_five_days_longer_are_five_days_away():
    score = score_of("gap_w1", pairs(10, 30), pairs(4, 35))
    assert (score.value, score.low, score.high, score.n) == (5.0, 5.0, 5.0, 4)


def test_gaps_that_are_missing_are_said_to_be():
    without, single = Cohort.of([[["A"], ["B"]]]), pairs(1, 3).with_visits(np.array([0]), np.array([1]))
    assert "training patients have no days" in score_of("gap_w1", without, pairs(3, 5)).reason
    assert "synthetic patients have no days" in score_of("gap_w1", pairs(3, 5), without).reason
    assert "two visits" in score_of("gap_w1", pairs(3, 5), single).reason


# ---- watched codes ------------------------------------------------------------------------------------------
#: A is the index code that most patients hold; O comes later.
WATCHED = Watched(np.array([0]), np.array([1]))


def cohort(rows: list[list[list[str]]], **extras: object) -> Cohort:
    return Cohort.of(rows, ["A", "O", "X"], **extras)


def test_index_codes_are_common_and_outcomes_come_later():
    """A is held by three patients, O is new at a later visit of two; X is only ever at first visits."""
    train = cohort([[["A"], ["O"]], [["A", "X"], ["O"]], [["A", "X"]]])
    watched = Watched.of(train, n_index=1, n_outcomes=2)
    assert watched.index.tolist() == [0]
    assert watched.outcomes.tolist() == [1]


def test_stays_and_measurements_are_no_turn_in_a_course():
    """Everybody has a kind of visit; where nothing else is there, it is asked for all the same."""
    visit, lab = visit_kind_code("inpatient"), Code.of("glucose", "LAB", domain="lab")
    listed = [Code.of("A"), Code.of("O"), visit, lab]
    first, later = [visit.token, lab.token, "A"], [visit.token, "O"]
    watched = Watched.of(Cohort.of([[first, later], [first], [[visit.token], later]], listed), n_index=1)
    tokens = sorted(code.token for code in listed)
    assert [tokens[code] for code in watched.codes] == ["A", "O"]
    alone = Watched.of(Cohort.of([[[visit.token], [visit.token, lab.token]]], [visit, lab]))
    assert len(alone.codes) == 2


def test_histories_know_what_was_before_and_nothing_of_the_patient_before():
    histories = Histories.of(cohort([[["X"], ["O"], ["X"]], [["X"], ["X"]]]), WATCHED)
    assert histories.ever[:, 1].tolist() == [False, True, True, False, False]
    assert histories.onset[:, 1].tolist() == [False, True, False, False, False]
    assert histories.at_risk[:, 1].tolist() == [True, True, False, True, True]


def test_effects_count_next_visits_of_those_who_have_not_had_the_outcome():
    """After A: O follows once, X once. Without A: X follows. The last patient had O before and does not count."""
    made = cohort([[["A"], ["O"]], [["A"], ["X"]], [["X"], ["X"]], [["O"], ["O"]]])
    training = TrainingSummary(cohort([[["A"], ["O"]], [["A"], ["O"]], [["A"]]]))
    assert [each.tolist() for each in (training.once(Watched.of).index, training.once(Watched.of).outcomes)] == [
        [0],
        [1],
    ]
    counts = EffectCounts.count(made, training).counts
    assert counts[0, 0].tolist() == [1, 1, 0, 1]
    assert log_odds_ratio(counts)[0, 0] == pytest.approx(np.log(1.5 * 1.5 / (1.5 * 0.5)))
    assert EffectCounts.count(made.subset([1]), training).counts[0, 0].tolist() == [0, 1, 0, 0]


def test_training_patients_have_their_own_effects_and_a_world_turned_round_has_not():
    """A is followed by O and X by X in training; the other way round in the other world."""
    train = cohort([[["A"], ["O"]]] * 30 + [[["A"], ["A"]]] * 5 + [[["X"], ["X"]]] * 30 + [[["X"], ["O"]]] * 3)
    turned = cohort([[["X"], ["O"]]] * 30 + [[["A"], ["X"]]] * 30 + [[["X"], ["X"]]] * 3)
    assert value_of("effect_corr", train, train) in (None, pytest.approx(1.0))
    wrong = value_of("effect_corr", train, turned)
    assert wrong is None or wrong < 0.5


def test_kaplan_meier_by_hand_with_censoring():
    """Of 4 one falls ill at 1 (3/4); of the 3 left one at 2, where one leaves (1/2); the last at 3 (0)."""
    curve = survival(events=np.array([0, 1, 1, 1, 0, 0]), ends=np.array([0, 1, 2, 1, 0, 0]))
    assert curve.tolist() == [1.0, 0.75, 0.5, 0.0, 0.0]


def test_curves_of_onsets_are_as_far_apart_as_the_onsets_are_late():
    """In training O comes at the first visit after A, in the synthetic cohort never: of 6 points 5 differ by 1."""
    train, never = cohort([[["A"], ["O"]]] * FEWEST), cohort([[["A"], ["X"]]] * 5)
    score = score_of("onset_curves", train, never)
    assert score.value == pytest.approx(5 / 6)
    assert score.n == 1
    assert value_of("onset_curves", train, train) == 0.0


def test_onsets_are_timed_in_days_where_both_cohorts_have_days():
    def after(days: int) -> Cohort:
        return cohort([[["A"], ["O"]]] * FEWEST, days=np.tile([0, days], FEWEST).astype(np.int32))

    score = score_of("onset_curves", after(100), after(173), intervals=False)
    assert score.value == pytest.approx(73 / 366)


def aged(rows: list[list[list[str]]], bands: list[int], names: tuple[str, ...]) -> Cohort:
    return cohort(rows, attributes={"age_band": Attribute(np.array(bands, dtype=np.int16), names)})


def test_incidence_is_compared_band_by_band_whatever_the_order_of_the_bands():
    """A begins in every visit of the old and in none of the young in training, and the other way round in the made."""
    names = ("young", "old")
    train = aged([[["X"]], [["A"]]], [0, 1], names)
    same = aged([[["A"]], [["X"]]], [0, 1], names[::-1])
    turned = aged([[["A"]], [["X"]]], [0, 1], names)
    assert value_of("incidence_by_age", train, same) == 0.0
    # Both A and X are wrong in both bands.
    assert value_of("incidence_by_age", train, turned) == 1.0


def test_without_ages_or_later_visits_there_is_a_reason():
    plain = cohort([[["A"]], [["X"]]])
    assert "no age" in score_of("incidence_by_age", plain, plain).reason
    assert "later visit" in score_of("effect_corr", plain, plain).reason
    assert "no index code" in score_of("onset_curves", plain, plain).reason
    train = aged([[["X"]], [["A"]]], [0, 1], ("young", "old"))
    assert "no attribute" in score_of("incidence_by_age", train, plain).reason


# ---- rules --------------------------------------------------------------------------------------------------
CODES = ["C", "D", "P", "X"]


def sexed(rows: list[list[list[str]]], women: list[bool]) -> Cohort:
    """Patients and whether each is a woman."""
    values = np.array(women, dtype=np.int16)
    return Cohort.of(rows, CODES, attributes={"sex": Attribute(values, ("M", "F"))})


def world(n: int = 40) -> Cohort:
    """As many women, who all hold P, as men, who hold X."""
    return sexed([[["P"]]] * n + [[["X"]]] * n, [True] * n + [False] * n)


def test_breakers_are_counted_in_synthetic_and_real_patients_alike():
    made = sexed([[["P"]], [["P"]], [["X"]], [["X"]]], [True, False, False, False])
    scores = scores_of("rule_breaks", world(), made)
    assert scores["all"].value == scores["sex"].value == pytest.approx(0.25)
    assert value_of("rule_breaks", world(), world()) == 0.0


def test_where_nothing_is_taught_that_is_said():
    plain = Cohort.of([[["X"]]], CODES)
    assert "no rule" in score_of("rule_breaks", plain, plain).reason
