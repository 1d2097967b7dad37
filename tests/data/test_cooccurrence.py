"""Same-visit pairs, against a plain re-statement that loops."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

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


@pytest.mark.parametrize("wide", [0, 16_384])
def test_pairs_of_few_and_of_many_codes_are_looked_up_alike(wide: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapcla.data.cooccurrence.WIDE", wide)
    seen = PairSet.of(cooccurrence_counts(Cohort.of([[["A", "B"], ["B", "C"]], [["D"]]])))
    first, second = np.divmod(np.arange(16), 4)
    assert np.flatnonzero(seen.holds(first, second)).tolist() == [1, 4, 6, 9]
    none = PairSet.of(cooccurrence_counts(Cohort.of([[["A"]], [["B"]]])))
    assert not none.holds(first[:2], second[:2]).any()


def test_the_pairs_of_50_000_codes_take_as_much_memory_as_there_are_pairs():
    row = np.arange(49_999)
    counts = sparse.csr_matrix((np.ones(49_999), (row, row + 1)), shape=(50_000, 50_000))
    seen = PairSet.of(counts)
    assert seen.bits is None and seen.keys is not None and seen.keys.nbytes == 8 * 49_999
    assert seen.holds(np.array([0, 49_998, 5]), np.array([1, 49_999, 5])).tolist() == [True, True, False]
