"""Numbers that entries carry, wherever patients are cut, joined, saved or put on another vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.cohort import values_on
from adapcla.errors import InputError

LAB = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
CODES = ["A", "B", LAB]


def measured() -> Cohort:
    """Two patients, three values."""
    values = np.array([np.nan, 90, 110, np.nan, 70], dtype=np.float32)
    return Cohort.of([[["A", "LAB/glucose"], ["LAB/glucose"]], [["B", "LAB/glucose"]]], CODES, values=values)


def told(cohort: Cohort) -> list[float]:
    """The values that are there."""
    assert cohort.values is not None
    return [float(value) for value in cohort.values if np.isfinite(value)]


def test_values_follow_their_patients() -> None:
    cohort = measured()
    assert told(cohort.subset([1, 0])) == [70, 90, 110]
    assert told(cohort.followed_by(cohort.subset([1]))) == [90, 110, 70, 70]
    assert told(cohort.with_visits(np.array([1, 2]), np.array([2, 3]))) == [110, 70]
    assert told(cohort.on(Vocabulary.of([*CODES, "C"]))) == told(cohort)


def test_a_cohort_without_its_numbers_has_no_values() -> None:
    assert measured().keep_codes(np.array([True, True, False])).values is None
    assert measured().without_values().values is None
    assert not measured().vocabulary.without_units().numbers.any()
    assert Cohort.of([[["A"]]]).without_values().values is None


def test_values_are_saved_and_change_the_fingerprint(tmp_path: Path) -> None:
    cohort = measured()
    opened = Cohort.open(cohort.save(tmp_path / "cohort"))
    assert opened.vocabulary == cohort.vocabulary and told(opened) == told(cohort)
    assert opened.fingerprint == cohort.fingerprint
    other = np.where(np.asarray(cohort.values) == 70, np.float32(71), cohort.values)
    assert replace(cohort, values=other).fingerprint != cohort.fingerprint


@pytest.mark.parametrize(
    "values",
    [None, [np.nan] * 5, [1, 90, 110, np.nan, 70], [np.nan, 90, 110, np.nan], [np.nan, np.inf, 110, np.nan, 70]],
    ids=["none", "a number without a value", "a value at a plain code", "too few", "infinite"],
)
def test_values_that_do_not_fit_are_refused(values: list[float] | None) -> None:
    with pytest.raises(InputError):
        replace(measured(), values=None if values is None else np.array(values, dtype=np.float32))


def test_values_on_another_vocabulary() -> None:
    assert values_on(np.array([False]), None, 3) is None
    empty = values_on(np.array([False, True]), None, 3)
    assert empty is not None and np.isnan(empty).all() and len(empty) == 3


def test_values_and_days_follow_the_entries_that_stay() -> None:
    values = np.array([np.nan, 90, 110, np.nan], dtype=np.float32)
    days = np.array([0, 3, 9], dtype=np.int32)
    cohort = Cohort.of([[["A", "LAB/glucose"], ["LAB/glucose"], ["A"]]], ["A", LAB], values=values, days=days)
    part = cohort.keep_entries(np.array([False, False, True, True]))
    assert told(part) == [110] and part.days is not None and part.days.tolist() == [0, 6]
    assert part.card["dropped"] == {"entries left out": 2, "visits left empty": 1}
