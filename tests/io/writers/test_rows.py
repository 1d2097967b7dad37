"""Blocks, the calendar and facts, on cases that can be counted by eye."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.io.cohorts import cohorts

from adapcla.data import Attribute, Cohort
from adapcla.errors import InputError
from adapcla.io.codebook import Codebook
from adapcla.io.writers.rows import LAST_DAY, age_in, birth_years, blocks, dates, deaths, facts, times


@settings(max_examples=30)
@given(cohorts())
def test_blocks_hold_every_patient_once_in_order(cohort: Cohort) -> None:
    found = list(blocks(cohort, size=2))
    assert [patient for block in found for patient in block.cohort.patients()] == list(cohort.patients())
    assert np.concatenate([block.patients for block in found]).tolist() == list(range(cohort.n_patients))
    assert np.concatenate([block.visits for block in found]).tolist() == list(range(cohort.n_visits))
    whole = np.concatenate([block.patient_of_visit for block in found])
    assert (whole == cohort.patient_of_visit).all()


def test_the_calendar_counts_days_or_visits(tiny: Cohort, tiny_full: Cohort) -> None:
    assert (dates(tiny_full) - np.datetime64("2000-01-01")).astype(int).tolist() == [0, 30, 0, 0, 7]
    assert (dates(tiny) - np.datetime64("2000-01-01")).astype(int).tolist() == [0, 1, 0, 0, 1]


def test_the_calendar_ends() -> None:
    last = Cohort.of([[["A"], ["A"]]], days=np.array([0, LAST_DAY], dtype=np.int32))
    assert str(dates(last)[1]) < "9999-12-31"
    late = Cohort.of([[["A"], ["A"]]], days=np.array([0, LAST_DAY + 1], dtype=np.int32))
    with pytest.raises(InputError, match="calendars end"):
        dates(late)


def test_facts_are_known_attributes_and_set_labels_by_patient(tiny_full: Cohort) -> None:
    """Keys are F, M, first, second; patient 0 is F with first, 1 is M, 2 has both labels and no sex."""
    keys = [key for key, _, _ in Codebook.of(tiny_full).fact_keys()]
    patient, key = facts(tiny_full)
    assert [(int(p), keys[k]) for p, k in zip(patient, key, strict=True)] == [
        (0, "ATTRIBUTE//sex//F"),
        (0, "LABEL//first"),
        (1, "ATTRIBUTE//sex//M"),
        (2, "LABEL//first"),
        (2, "LABEL//second"),
    ]


@settings(max_examples=30)
@given(cohorts())
def test_visits_of_a_patient_never_overlap_and_stay_on_their_day(cohort: Cohort) -> None:
    begin, end = times(cohort)
    assert (begin < end).all()
    assert (begin.astype("datetime64[D]") == dates(cohort)).all() and (
        end.astype("datetime64[D]") == dates(cohort)
    ).all()
    same = cohort.patient_of_visit[1:] == cohort.patient_of_visit[:-1]
    assert (end[:-1][same] < begin[1:][same]).all()


@pytest.mark.parametrize(
    ("words", "age"),
    [("0-9", 5), ("100", 100), (">=85", 85), ("1940", None), ("69-60", None), ("1, 2, 3", None), ("", None)],
)
def test_ages_are_read_from_bands_and_numbers_alone(words: str, age: int | None) -> None:
    assert age_in(words) == age


def test_without_attributes_no_birth_or_death_is_known(tiny: Cohort) -> None:
    assert not birth_years(tiny).any() and not deaths(tiny).any()


def test_unknown_values_give_no_birth_or_death() -> None:
    unknown = {name: Attribute(np.array([-1], dtype=np.int16), ("1",)) for name in ("age", "died")}
    cohort = Cohort.of([[["A"]]], attributes=unknown)
    assert not birth_years(cohort).any() and not deaths(cohort).any()
