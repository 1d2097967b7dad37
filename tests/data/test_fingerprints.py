"""Records as numbers: equal exactly where the records are, whatever the order of patients or of the vocabulary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort, Vocabulary
from adapcla.data.fingerprints import (
    code_keys,
    identities,
    leave_one_out_fingerprints,
    random_order,
    record_fingerprints,
    visit_fingerprints,
)

CODES = list("ABCD")
PATIENTS = st.lists(
    st.lists(st.sets(st.sampled_from(CODES), min_size=1), min_size=1, max_size=3), min_size=1, max_size=12
)


@given(PATIENTS)
def test_two_records_have_one_number_exactly_when_they_are_equal(patients: list[list[set[str]]]) -> None:
    cohort = Cohort.of(patients, CODES)
    (ids,) = identities(record_fingerprints(cohort, code_keys(cohort.vocabulary)))
    records = list(cohort.patients())
    for i, one in enumerate(records):
        for j, other in enumerate(records):
            assert (ids[i] == ids[j]) == (one == other)


@given(PATIENTS)
def test_the_number_of_a_record_does_not_depend_on_the_vocabulary_around_it(patients: list[list[set[str]]]) -> None:
    narrow, wide = Cohort.of(patients, CODES), Cohort.of(patients, ["0", *CODES, "Z"])
    prints = [record_fingerprints(cohort, code_keys(cohort.vocabulary)) for cohort in (narrow, wide)]
    assert (prints[0] == prints[1]).all()


@given(PATIENTS, st.randoms(use_true_random=False))
def test_the_drawing_order_is_of_records_not_of_places(patients: list[list[set[str]]], shuffler: object) -> None:
    cohort = Cohort.of(patients, CODES)
    turn = np.array(shuffler.sample(range(len(patients)), len(patients)))  # type: ignore[attr-defined]
    turned = cohort.subset(turn)
    drawn = [
        list(c.subset(random_order(record_fingerprints(c, code_keys(c.vocabulary)), 3, "t")).patients())
        for c in (cohort, turned)
    ]
    assert drawn[0] == drawn[1]


def test_equal_records_are_drawn_apart() -> None:
    """Of 1,000 copies of one record among 1,000 others about half are in the first half, not all or none."""
    cohort = Cohort.of([[["A"]]] * 1000 + [[["A", "B"]]] * 1000)
    order = random_order(record_fingerprints(cohort, code_keys(cohort.vocabulary)), 1, "t")
    assert 400 < (order[:1000] < 1000).sum() < 600


def test_visits_in_another_order_are_another_record_and_moved_codes_too() -> None:
    """{A}{B} ≠ {B}{A} ≠ {A,B}, though all hold the same codes."""
    cohort = Cohort.of([[["A"], ["B"]], [["B"], ["A"]], [["A", "B"]]])
    (ids,) = identities(record_fingerprints(cohort, code_keys(cohort.vocabulary)))
    assert len(set(ids.tolist())) == 3


def test_a_record_without_a_code_is_the_record_that_lacks_it() -> None:
    cohort = Cohort.of([[["A", "B"], ["C"]], [["B"], ["C"]], [["A"], ["C"]]])
    keys = code_keys(cohort.vocabulary)
    whole, less = record_fingerprints(cohort, keys), leave_one_out_fingerprints(cohort, keys)
    assert (less[0] == whole[1]).all() and (less[1] == whole[2]).all() and not (less[2] == whole[1:]).all(axis=1).any()


def test_no_patients_give_no_numbers() -> None:
    empty = Cohort.of([[["A"]]]).subset([])
    assert record_fingerprints(empty, code_keys(Vocabulary.of(["A"]))).shape == (0, 2)
    assert visit_fingerprints(empty, code_keys(Vocabulary.of(["A"]))).shape == (0, 2)
