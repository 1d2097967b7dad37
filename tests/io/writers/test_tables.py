"""The tables that every format selects from, on cases that can be counted by eye."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from tests.io.cohorts import cohorts

from adapcla.data import Attribute, Cohort
from adapcla.errors import InputError
from adapcla.io.database import Database
from adapcla.io.writers import tables
from adapcla.io.writers.tables import LAST_DAY, add_times, age_in, birth_years, cohort_tables


def rows(cohort: Cohort, query: str, times: bool = False) -> list[tuple[object, ...]]:
    with Database() as db:
        cohort_tables(db, cohort)
        if times:
            add_times(db)
        return db.query(query)


@settings(max_examples=20)
@given(cohorts())
def test_every_code_of_every_visit_is_an_event(cohort: Cohort) -> None:
    found = rows(cohort, "SELECT patient, visit, token FROM events JOIN codes USING (code) ORDER BY event")
    tokens = cohort.vocabulary.tokens
    assert found == [
        (int(patient), int(visit), tokens[code])
        for patient, visit, code in zip(cohort.patient_of_entry, cohort.visit_of_entry, cohort.codes, strict=True)
    ]


def test_events_are_handed_over_in_parts(tiny_full: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT * FROM events ORDER BY event"
    whole = rows(tiny_full, query)
    monkeypatch.setattr(tables, "_VISITS", 2)
    assert rows(tiny_full, query) == whole and len(whole) == tiny_full.n_entries


def test_kind_ending_length_and_death_of_each_visit(whole: Cohort) -> None:
    found = rows(whole, "SELECT kind, ending, round(length, 4) FROM visits ORDER BY visit")
    assert found == [
        ("elective", "home", 3.25),
        ("home", None, None),
        (None, "died", pytest.approx(0.02)),
        ("inpatient", "facility", None),
    ]
    assert rows(whole, "SELECT died FROM patients ORDER BY patient") == [(True,), (False,)]


def test_a_code_that_is_called_like_a_kind_but_is_of_no_choice_group_is_a_code() -> None:
    plain = Cohort.of([[["KIND/inpatient", "STAY/days", "END/died"]]])
    assert rows(plain, "SELECT DISTINCT role FROM codes") == [("",)]
    assert rows(plain, "SELECT died FROM patients") == [(False,)]


def test_the_calendar_counts_days_or_visits_and_ends(tiny: Cohort, tiny_full: Cohort) -> None:
    query = "SELECT CAST(begins AS DATE) - DATE '2000-01-01' FROM stays ORDER BY visit"
    assert rows(tiny_full, query, times=True) == [(0,), (30,), (0,), (0,), (7,)]
    assert rows(tiny, query, times=True) == [(0,), (1,), (0,), (0,), (1,)]
    late = Cohort.of([[["A"], ["A"]]], days=np.array([0, LAST_DAY + 1], dtype=np.int32))
    with pytest.raises(InputError, match="calendars end"):
        rows(late, query, times=True)


@settings(max_examples=20)
@given(cohorts())
def test_visits_of_a_patient_never_overlap_and_stay_on_their_day(cohort: Cohort) -> None:
    """Where no length is known."""
    found = rows(cohort, "SELECT patient, coalesce(day, number), begins, ends FROM stays ORDER BY visit", times=True)
    for _, day, begins, ends in found:
        midnight = datetime(2000, 1, 1) + timedelta(days=day)
        assert midnight <= begins < ends < midnight + timedelta(days=1)
    for one, other in itertools.pairwise(found):
        assert one[0] != other[0] or one[3] < other[2]


@pytest.mark.parametrize(
    ("words", "age"),
    [("0-9", 5), ("100", 100), (">=85", 85), ("1940", None), ("69-60", None), ("1, 2, 3", None), ("", None)],
)
def test_ages_are_read_from_bands_and_numbers_alone(words: str, age: int | None) -> None:
    assert age_in(words) == age


def test_deaths_that_an_attribute_tells_and_unknown_values(tiny: Cohort) -> None:
    assert not birth_years(tiny).any()
    died = {"died": Attribute(np.array([1, 0, -1], dtype=np.int16), ("no", "Yes "))}
    told = Cohort.of([[["A"]], [["A"]], [["A"]]], attributes=died)
    assert rows(told, "SELECT died FROM patients ORDER BY patient") == [(True,), (False,), (False,)]
    unknown = {"age": Attribute(np.array([-1], dtype=np.int16), ("1",))}
    assert not birth_years(Cohort.of([[["A"]]], attributes=unknown)).any()
