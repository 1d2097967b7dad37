"""n-gram probabilities, against numpy and scikit-learn on dense tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.metrics import r2_score

from adapcla.data import Cohort
from adapcla.evaluation.statistics import KINDS, agreement, places, sequential_counts

tables = arrays(np.int64, (4, 5), elements=st.integers(0, 6))


@given(tables, tables)
def test_agreement_is_that_of_the_dense_tables_where_either_has_something(one: np.ndarray, two: np.ndarray):
    found = agreement(sparse.csr_matrix(one), 7, sparse.csr_matrix(two), 11)
    either = (one > 0) | (two > 0)
    truth, guess = one[either] / 7, two[either] / 11
    assert found.n == either.sum()
    if len(truth) < 2 or np.ptp(truth) == 0:
        assert np.isnan(found.r2)
        return
    assert found.r2 == pytest.approx(r2_score(truth, guess), abs=1e-9)
    if np.ptp(guess) > 0:
        assert found.corr == pytest.approx(np.corrcoef(truth, guess)[0, 1], abs=1e-9)
    else:
        assert np.isnan(found.corr)


def test_sequential_pairs_stay_inside_a_patient():
    """A→B, A→C once each in the first record; the second record starts anew, so C→A is not counted."""
    counts = sequential_counts(Cohort.of([[["A"], ["B", "C"]], [["A"]]])).toarray()
    assert counts.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]


def test_places_are_visits_or_steps():
    cohort = Cohort.of([[["A"], ["B"], ["C"]], [["A"]]])
    assert {kind: places(cohort, kind) for kind in KINDS} == {"unigram": 4, "bigram": 4, "sequential_bigram": 2}


def test_without_a_place_there_is_no_agreement():
    empty = sparse.csr_matrix((2, 2), dtype=np.int64)
    assert np.isnan(agreement(empty, 0, empty, 0).r2)
