"""Pairs that one patient holds alone, against a plain count in Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.evaluation.privacy.owners import OwnedPairs, owned_pairs, pair_set, sum_error

CODES = list("ABCDE")
PATIENTS = st.lists(
    st.lists(st.sets(st.sampled_from(CODES), min_size=1), min_size=1, max_size=4), min_size=1, max_size=8
)


@given(PATIENTS, PATIENTS)
def test_owners_are_those_of_a_plain_count(one: list[list[set[str]]], other: list[list[set[str]]]) -> None:
    holders: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number, patient in enumerate([*one, *other]):
        for visit in patient:
            for pair in combinations(sorted(CODES.index(code) for code in visit), 2):
                holders[pair].add(number)
    expected = {pair: next(iter(who)) for pair, who in holders.items() if len(who) == 1}
    found = owned_pairs([Cohort.of(one, CODES), Cohort.of(other, CODES)])
    assert (
        dict(zip(zip(found.first.tolist(), found.second.tolist(), strict=True), found.owner.tolist(), strict=True))
        == expected
    )


def test_a_pair_of_two_patients_whose_numbers_average_to_a_third_has_no_owner() -> None:
    """Patients 0 and 2 hold {A, B}: the mean of their numbers is 1, but patient 1 does not hold the pair."""
    cohort = Cohort.of([[["A", "B"]], [["A"], ["B"], ["A"]], [["A", "B"]]])
    assert len(owned_pairs([cohort])) == 0


def test_a_set_of_no_pairs_holds_nothing() -> None:
    none = OwnedPairs(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
    assert not pair_set(none, 3).holds(np.array([0]), np.array([1])).any()


def test_the_error_of_a_sum_counts_patients_without_a_pair_too() -> None:
    """Per-patient sums 3, 0, 0: variance 2, three patients, so the error is √6."""
    assert np.isclose(sum_error(np.array([0, 0]), np.array([1.0, 2.0]), 3), np.sqrt(6.0))
