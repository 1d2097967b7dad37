"""What the constructor of a cohort refuses: every way in which flat arrays can fail to be patients."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Attribute, Cohort, Vocabulary, ragged
from adapcla.data.cohort import check_codes, check_days, check_runs
from adapcla.errors import InputError


@pytest.mark.parametrize(
    ("codes", "visit_starts", "patient_starts", "says"),
    [
        ([0, 1], [0, 1], [0, 1], "visit_starts does not span"),
        ([0, 1], [1, 2], [0, 1], "visit_starts does not span"),
        ([0, 1], [], [0], "visit_starts does not span"),
        ([0, 1], [0, 2], [0, 2], "patient_starts does not span"),
        ([0, 1], [0, 2, 2], [0, 2], "empty run"),
        ([0, 1], [0, 2, 1, 2], [0, 3], "empty run"),
        ([0, 1], [0, 2], [0, 0, 1], "empty run"),
        ([0, 2], [0, 2], [0, 1], "out of range"),
        ([-1, 0], [0, 2], [0, 1], "out of range"),
        ([1, 0], [0, 2], [0, 1], "repeated or unordered"),
        ([0, 0], [0, 2], [0, 1], "repeated or unordered"),
        ([0, 1, 1, 0], [0, 2, 4], [0, 1, 2], "repeated or unordered"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(codes, visit_starts, patient_starts, says):
    with pytest.raises(InputError, match=says):
        Cohort(
            Vocabulary.of(["A", "B"]),
            np.array(codes, dtype=np.int32),
            np.array(visit_starts, dtype=np.int64),
            np.array(patient_starts, dtype=np.int64),
        )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"days": np.zeros(4, dtype=np.int32)}, "days do not match"),
        ({"labels": np.zeros((3, 1), dtype=np.uint8)}, "labels of shape"),
        ({"labels": np.zeros((2, 2), dtype=np.uint8)}, "labels of shape"),
        ({"attributes": {"sex": Attribute(np.zeros(2, dtype=np.int16), ("F",))}}, "attribute sex"),
        ({"attributes": {"sex": Attribute(np.array([0, 1, 2], dtype=np.int16), ("F", "M"))}}, "attribute sex"),
        ({"attributes": {"sex": Attribute(np.array([0, 1, -2], dtype=np.int16), ("F", "M"))}}, "attribute sex"),
        ({"days": np.array([0, 30, 0, 5, 7], dtype=np.int32)}, "days"),
        ({"days": np.array([0, -1, 0, 0, 7], dtype=np.int32)}, "days"),
        ({"days": np.array([0, 9, 0, 7, 0], dtype=np.int32)}, "days"),
        ({"codes": np.array([0, 1, 1, 2, 0, 1, 3, 0], dtype=np.int64)}, "type int64"),
        ({"visit_starts": np.array([0, 2, 3, 4, 7, 8], dtype=np.int32)}, "type int32"),
        ({"codes": np.zeros((8, 1), dtype=np.int32)}, "shape"),
    ],
)
def test_extras_that_do_not_fit_are_refused(tiny_full, change, says):
    with pytest.raises(InputError, match=says):
        replace(tiny_full, **change)


def test_unknown_and_equal_days_are_fine(tiny):
    """Two visits on one day keep the order they came in."""
    assert replace(tiny, days=np.zeros(5, dtype=np.int32)).days is not None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_exactly_the_visits_in_order_pass(sizes, data):
    """Two borders of one code each: the check must look inside visits and never across their borders."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes = np.array(data.draw(st.lists(st.integers(0, 5), min_size=sum(sizes), max_size=sum(sizes))), dtype=np.int32)
    check_runs("visit_starts", starts, len(codes))
    by_hand = all(list(codes[a:b]) == sorted(set(codes[a:b].tolist())) for a, b in itertools.pairwise(starts))
    if by_hand:
        check_codes(codes, starts, 6)
    else:
        with pytest.raises(InputError, match="repeated or unordered"):
            check_codes(codes, starts, 6)


def test_days_may_fall_from_one_patient_to_the_next():
    """Days 0, 9 | 0, 3: the fall from 9 to 0 is the border between two patients."""
    check_days(np.array([0, 9, 0, 3], dtype=np.int32), np.array([0, 2, 4]))


@pytest.mark.parametrize("name", ["../../escape", "a/b", "", "two words"])
def test_an_attribute_name_is_a_word_because_it_becomes_a_file_name(tiny, name):
    with pytest.raises(InputError, match="name"):
        replace(tiny, attributes={name: Attribute(np.zeros(3, dtype=np.int16), ("x",))})


def test_a_label_is_zero_or_one(tiny):
    with pytest.raises(InputError, match="neither 0 nor 1"):
        replace(tiny, labels=np.array([[0], [1], [2]], dtype=np.uint8), label_names=("x",))


def test_messages_name_no_value_of_a_patient(tiny):
    with pytest.raises(InputError) as caught:
        replace(tiny, codes=np.array([0, 1, 1, 2, 0, 1, 77, 0], dtype=np.int32))
    assert "77" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_codes_are_checked_across_the_borders_of_pieces(size, monkeypatch):
    """Visits {0, 2}, {0, 1, 2}, {1}: right in pieces of any size; a repeat is found wherever it lies."""
    monkeypatch.setattr(ragged, "PIECE", size)
    starts, good = np.array([0, 2, 5, 6]), np.array([0, 2, 0, 1, 2, 1], dtype=np.int32)
    check_codes(good, starts, 3)
    for at, wrong in ((1, 0), (3, 0), (3, 2), (4, 1)):
        bad = good.copy()
        bad[at] = wrong
        with pytest.raises(InputError, match="repeated or unordered"):
            check_codes(bad, starts, 3)
