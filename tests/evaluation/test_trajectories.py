"""New codes by age, time until them, and effects of one code on another, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Attribute, Code, Cohort
from adapcla.data.vocabulary import visit_kind_code
from adapcla.evaluation.contract import Comparison
from adapcla.evaluation.trajectories import (
    FEWEST,
    Histories,
    Watched,
    effect_correlation,
    effect_counts,
    effect_error,
    incidence_by_age,
    log_odds_ratio,
    onset_curves,
    survival,
)

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
    counts = effect_counts(Histories.of(made, WATCHED), np.arange(4))
    assert counts[0, 0].tolist() == [1, 1, 0, 1]
    assert log_odds_ratio(counts)[0, 0] == pytest.approx(np.log(1.5 * 1.5 / (1.5 * 0.5)))
    assert effect_counts(Histories.of(made, WATCHED), np.array([1]))[0, 0].tolist() == [0, 1, 0, 0]


def test_training_patients_have_their_own_effects_and_a_world_turned_round_has_not():
    train = cohort([[["A"], ["O"]]] * 30 + [[["A"], ["X"]]] * 30 + [[["X"], ["X"]]] * 29 + [[["X"], ["O"]]])
    turned = cohort([[["X"], ["O"]]] * 30 + [[["A"], ["X"]]] * 60)
    same, other = (Comparison.of(train, train, one, intervals=False) for one in (train, turned))
    assert effect_error(same)["all"].value == 0.0
    assert effect_error(other)["all"].value > 2
    assert effect_correlation(same)["all"].value in (None, 1.0)


def test_kaplan_meier_by_hand_with_censoring():
    """Of 4 one falls ill at 1 (3/4); of the 3 left one at 2, where one leaves (1/2); the last at 3 (0)."""
    curve = survival(np.array([1, 2, 2, 3]), np.array([True, True, False, True]), 4)
    assert curve.tolist() == [1.0, 0.75, 0.5, 0.0, 0.0]


def test_curves_of_onsets_are_as_far_apart_as_the_onsets_are_late():
    """In training O comes at the first visit after A, in the synthetic cohort never: of 6 points 5 differ by 1."""
    train, never = cohort([[["A"], ["O"]]] * FEWEST), cohort([[["A"], ["X"]]] * 5)
    comparison = Comparison.of(train, train, never)
    score = onset_curves(comparison)["all"]
    assert score.value == pytest.approx(5 / 6)
    assert score.n == 1
    assert onset_curves(Comparison.of(train, train, train))["all"].value == 0.0


def test_onsets_are_timed_in_days_where_both_cohorts_have_days():
    def after(days: int) -> Cohort:
        return cohort([[["A"], ["O"]]] * FEWEST, days=np.tile([0, days], FEWEST).astype(np.int32))

    score = onset_curves(Comparison.of(after(100), after(100), after(173), intervals=False))["all"]
    assert score.value == pytest.approx(73 / 366)


def aged(rows: list[list[list[str]]], bands: list[int], names: tuple[str, ...]) -> Cohort:
    return cohort(rows, attributes={"age_band": Attribute(np.array(bands, dtype=np.int16), names)})


def test_incidence_is_compared_band_by_band_whatever_the_order_of_the_bands():
    """A begins in every visit of the old and in none of the young in training, and the other way round in the made."""
    names = ("young", "old")
    train = aged([[["X"]], [["A"]]], [0, 1], names)
    same = aged([[["A"]], [["X"]]], [0, 1], names[::-1])
    turned = aged([[["A"]], [["X"]]], [0, 1], names)
    assert incidence_by_age(Comparison.of(train, train, same))["all"].value == 0.0
    # Both A and X are wrong in both bands.
    assert incidence_by_age(Comparison.of(train, train, turned))["all"].value == 1.0


def test_without_ages_or_later_visits_there_is_a_reason():
    plain = cohort([[["A"]], [["X"]]])
    comparison = Comparison.of(plain, plain, plain)
    assert "no age" in incidence_by_age(comparison)["all"].reason
    assert "later visit" in effect_error(comparison)["all"].reason
    assert "no index code" in onset_curves(comparison)["all"].reason
    train = aged([[["X"]], [["A"]]], [0, 1], ("young", "old"))
    assert "no attribute" in incidence_by_age(Comparison.of(train, train, plain))["all"].reason
