"""Test and control patients that took part in training are refused; what is not known is not claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapcla.data import Cohort, Kind, Origin
from adapcla.data.provenance import Group, require_apart, training_sources
from adapcla.data.split import ControlledSplit
from adapcla.errors import InputError

WHOLE = Cohort.of([[[f"C{i:03d}"]] for i in range(100)], card=Origin(Kind.REAL).as_card())
STRANGER = Cohort.of([[["C000"], ["C001"]]])


def written_by(*groups: Cohort) -> Cohort:
    """Patients of a generator that learned from these cohorts."""
    learned = tuple(Group("train", group.fingerprint, group.origin) for group in groups)
    return replace(STRANGER, card=Origin(Kind.SYNTHETIC, (), learned).as_card())


def test_controls_of_another_split_are_found_among_the_training_patients():
    """Training divided without controls; the controls that were reserved later are training patients, all of them."""
    trained, parts = WHOLE.split(), WHOLE.split(control=0.1)
    assert set(map(str, parts.control.patients())) <= set(map(str, trained.train.patients()))
    made = written_by(trained.train, trained.valid)
    with pytest.raises(InputError, match="control patients took part in training"):
        require_apart(training_sources(parts.train, made), {"test": parts.test, "control": parts.control})
    # The given training cohort is innocent; the sample is not.
    assert require_apart(training_sources(parts.train, STRANGER), {"control": parts.control})


@pytest.fixture
def parts() -> ControlledSplit[Cohort]:
    return WHOLE.split(control=0.1)


def test_parts_of_one_split_pass(parts: ControlledSplit[Cohort]):
    made = written_by(parts.train, parts.valid)
    assert require_apart(training_sources(parts.train, made), {"test": parts.test, "control": parts.control})
    assert require_apart(training_sources(parts.train, made), {"test": parts.test.subset([0, 2]), "control": None})


@pytest.mark.parametrize("where", ["train", "valid"])
def test_training_and_validation_patients_are_refused_as_test(where: str, parts: ControlledSplit[Cohort]):
    made = written_by(parts.train, parts.valid)
    with pytest.raises(InputError, match="test patients took part in training"):
        require_apart(training_sources(parts.train, made), {"test": getattr(parts, where).subset([0])})


def test_the_given_training_cohort_is_looked_at_even_if_the_sample_says_nothing(parts: ControlledSplit[Cohort]):
    with pytest.raises(InputError, match="took part in training"):
        require_apart(training_sources(WHOLE, STRANGER), {"test": parts.test})


def test_people_behind_synthetic_training_patients_are_found(parts: ControlledSplit[Cohort]):
    """A generator of the second generation: its training patients are synthetic, and those learned from people."""
    first = written_by(parts.train, parts.valid)
    second = written_by(first)
    assert require_apart(training_sources(first, second), {"test": parts.test})
    with pytest.raises(InputError, match="took part in training"):
        require_apart(training_sources(first, second), {"test": parts.valid})


def test_an_unknown_origin_anywhere_is_not_known(parts: ControlledSplit[Cohort]):
    made = written_by(parts.train, parts.valid)
    assert not require_apart(training_sources(parts.train, made), {"test": STRANGER})
    assert not require_apart(training_sources(parts.train, written_by(STRANGER)), {"test": parts.test})
    assert not require_apart([], {"test": parts.test})
