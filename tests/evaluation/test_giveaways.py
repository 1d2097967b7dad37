"""What a record shows, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.discriminator import KINDS, Columns, Giveaways

DAYS = np.array([0, 10, 40, 0], dtype=np.int32)
COHORT = Cohort.of([[["A", "B"], ["B"], ["B", "C"]], [["C"]]], days=DAYS)


def column(name: str, cohort: Cohort = COHORT) -> list[float]:
    seen = Giveaways.of(cohort, Columns.of(COHORT))
    return seen.values[:, seen.names.index(name)].tolist()


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
    seen = Giveaways.of(COHORT, Columns.of(COHORT))
    assert set(seen.kinds) == set(KINDS)
    assert len(set(seen.names)) == len(seen.names) == seen.values.shape[1]
    assert np.isfinite(seen.values).all()


def test_without_days_there_are_no_gaps():
    cohort = Cohort.of([[["A"], ["B"]]])
    assert "gaps" not in Giveaways.of(cohort, Columns.of(cohort)).kinds


def test_pairs_that_stand_together_are_usual_and_others_are_not():
    """A and B are always together, as are C and D; a patient who mixes them has unusual pairs."""
    cohort = Cohort.of([[["A", "B"]], [["C", "D"]]] * 20)
    strange = Cohort.of([[["A", "B"]], [["A", "C"]]]).on(cohort.vocabulary)
    seen = Giveaways.of(strange, Columns.of(cohort))
    usual, unusual = seen.values[:, seen.names.index("mean log lift of pairs")]
    assert usual == pytest.approx(np.log(20.5 / (20 * 20 / 40 + 0.5)))
    assert unusual == pytest.approx(np.log(0.5 / (20 * 20 / 40 + 0.5)))
