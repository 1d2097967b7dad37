"""Blocks, the calendar and facts, on cases that can be counted by eye."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.sources.cohorts import cohorts

from adapcla.errors import InputError
from adapcla.records import Cohort
from adapcla.sources.codebook import Codebook
from adapcla.sources.export.rows import LAST_DAY, blocks, dates, facts


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
