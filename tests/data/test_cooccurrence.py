"""Same-visit pairs, against a plain re-statement that loops."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts, visit_pairs, visits_with_neighbours

VOCABULARY = [f"C{i:02d}" for i in range(12)]
visits = st.sets(st.sampled_from(VOCABULARY), min_size=1, max_size=6)
cohorts = st.lists(st.lists(visits, min_size=1, max_size=3), min_size=1, max_size=6).map(
    lambda patients: Cohort.of(patients, VOCABULARY)
)


def plain_pairs(cohort: Cohort) -> list[tuple[int, str, str]]:
    return [
        (patient, a, b)
        for patient, record in enumerate(cohort.patients())
        for visit in record
        for a, b in combinations(sorted(visit), 2)
    ]


@given(cohorts, st.integers(1, 40))
def test_pairs_are_those_of_a_loop_whatever_the_block(cohort: Cohort, block: int):
    tokens = cohort.vocabulary.tokens
    found = [
        (int(patient), tokens[a], tokens[b])
        for piece in visit_pairs(cohort, block)
        for a, b, patient in zip(piece.first, piece.second, piece.patient, strict=True)
    ]
    assert sorted(found) == sorted(plain_pairs(cohort))


@given(cohorts)
def test_cooccurrence_counts_visits_and_is_symmetric(cohort: Cohort):
    counts = cooccurrence_counts(cohort).toarray()
    expected = Counter((a, b) for _, a, b in plain_pairs(cohort))
    index = cohort.vocabulary.index
    assert (counts == counts.T).all()
    assert counts.trace() == 0
    assert counts.sum() == 2 * expected.total()
    assert all(counts[index[a], index[b]] == n for (a, b), n in expected.items())


@given(cohorts, cohorts)
def test_the_set_holds_the_pairs_of_its_cohort_and_no_other(one: Cohort, other: Cohort):
    known = {(a, b) for _, a, b in plain_pairs(one)}
    asked = [(a, b) for _, a, b in plain_pairs(other)]
    pair_set, index = PairSet.of(cooccurrence_counts(one)), one.vocabulary.index
    first, second = (np.array([index[pair[side]] for pair in asked], dtype=np.int64) for side in (0, 1))
    assert pair_set.holds(first, second).tolist() == [pair in known for pair in asked]
    assert pair_set.holds(second, first).tolist() == [pair in known for pair in asked]


def test_a_single_code_visit_has_no_neighbour():
    """A stands with B once and alone once; C only alone."""
    cohort = Cohort.of([[["A", "B"], ["A"]], [["C"]]])
    assert visits_with_neighbours(cohort).tolist() == [1, 1, 0]
    assert list(visit_pairs(Cohort.of([[["A"]], [["B"]]]))) == []
