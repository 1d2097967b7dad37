"""Marked patients: there when asked for, found by their marks alone."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.errors import UsageError
from adapcla.io import simulator as planted
from adapcla.io.simulator.names import layout
from adapcla.io.simulator.tripwires import MARKS, marked_codes


def holders(cohort, marks):
    """Patients with a visit that holds all these codes."""
    columns = cohort.vocabulary.positions(marks)
    full = np.asarray(cohort.matrix()[:, columns].sum(axis=1)).ravel() == len(marks)
    return cohort.patient_of_visit[full].tolist()


def test_tripwires_are_the_last_patients_and_nobody_else_has_their_marks():
    cohort = planted.simulate(3000, 300, tripwires=3)
    assert cohort.n_patients == 3000
    for number, patient in enumerate(planted.tripwire_codes(300, 3)):
        for visit in patient:
            assert holders(cohort, visit) == [2997 + number]
    assert cohort.card["arguments"]["tripwires"] == 3


def test_there_are_none_unless_asked_for():
    cohort = planted.simulate(3000, 300)
    assert not any(holders(cohort, visit) for patient in planted.tripwire_codes(300, 3) for visit in patient)


def test_the_other_patients_are_untouched():
    plain, marked = planted.simulate(200, 100), planted.simulate(200, 100, tripwires=2)
    assert plain.subset(range(198)).fingerprint == marked.subset(range(198)).fingerprint


def test_the_card_does_not_hold_the_marks():
    """A search for the marks in everything written about a cohort must not find them in its card."""
    card = str(planted.simulate(50, 100, tripwires=2).card)
    assert not any(code in card for patient in planted.tripwire_codes(100, 2) for visit in patient for code in visit)


def test_marks_are_rare_ascending_and_as_many_as_promised():
    plan = layout(300)
    marks = marked_codes(plan, 5)
    assert marks.shape == (5, 2, MARKS)
    assert (np.diff(marks, axis=2) > 0).all()
    assert plan.target[marks].max() <= np.quantile(plan.target[plan.disorders], 0.34)
    assert len({tuple(visit) for patient in marks.tolist() for visit in patient}) == 10


@pytest.mark.parametrize("n", [-1, 11, 100_000])
def test_impossible_numbers_are_refused(n):
    with pytest.raises(UsageError, match="tripwires"):
        planted.simulate(10, 60, tripwires=n)
