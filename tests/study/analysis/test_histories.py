from __future__ import annotations

import pytest

from adapcla.io import simulator as planted
from adapcla.study.analysis.histories import next_visits, true_next_visit


def test_the_cut_keeps_days_and_attributes_and_loses_only_the_last_visit(tiny_full):
    """Patients 0 and 2 have two visits: {A, B} then {B}, and {A, B, D} then {A}."""
    cut = next_visits(tiny_full)
    assert list(cut.histories.patients()) == [[["A", "B"]], [["A", "B", "D"]]]
    assert cut.following.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert cut.patients.tolist() == [0, 2]
    assert cut.histories.attributes["sex"].values.tolist() == [0, -1]
    assert cut.histories.days.tolist() == [0, 0]
    assert cut.seen.toarray().tolist() == [[1, 1, 0, 0], [1, 1, 0, 1]]


def test_histories_that_a_network_would_cut_are_left_out():
    cohort = planted.simulate(patients=100, codes=60, seed=1)
    assert next_visits(cohort, longest=1).histories.visits_per_patient.max() == 1


def test_the_true_chances_are_those_of_the_law():
    cohort = planted.simulate(patients=60, codes=60, seed=2)
    cut = next_visits(cohort)
    law = planted.law(60)
    case = 0
    history = next(iter(cut.histories.subset([case]).patients()))
    sexes = cut.histories.attributes["sex"]
    bands = cut.histories.attributes["birth_band"]
    code = cohort.vocabulary.tokens[5]
    expected = law.probability(
        code, history, sexes.categories[sexes.values[case]], bands.categories[bands.values[case]]
    )
    assert true_next_visit(cut.histories)[case, 5] == pytest.approx(expected)
