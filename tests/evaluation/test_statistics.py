"""Counts add up whatever the parts; neighbours and R² agree with scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import jensenshannon
from sklearn.metrics import r2_score
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.evaluation import comparison as comparisons
from adapcla.evaluation.comparison import Comparison, TrainingSummary
from adapcla.evaluation.metric import METRICS, CountMetric
from adapcla.evaluation.statistics import Contexts, PairCounts, SequentialCounts, r_squared, top_neighbours

STATISTICS = sorted(
    {metric.statistic for metric in METRICS.values() if isinstance(metric, CountMetric)}, key=lambda one: one.__name__
)


def numbers(value: object) -> list[np.ndarray]:
    """Every array and number of a statistic, in a fixed order."""
    if sparse.issparse(value):
        return [value.toarray()]
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in numbers(value[key])]
    if hasattr(value, "__dict__"):
        return [each for name in sorted(vars(value)) for each in numbers(vars(value)[name])]
    return [np.asarray(value)]


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.__name__)
def test_counts_of_parts_add_up_to_the_counts_of_all_and_a_part_can_be_taken_away(statistic, monkeypatch):
    world = whole_world(120, 1)
    training = TrainingSummary(world.without_values(), world)
    cohort = whole_world(90, 2) if statistic.of_values else whole_world(90, 2).without_values()
    first, second = cohort.subset(range(30)), cohort.subset(range(30, 90))
    everything, one, two = (statistic.count(part, training) for part in (cohort, first, second))
    monkeypatch.setattr(comparisons, "PART", 7)
    in_parts = comparisons.count_in_parts(statistic, cohort, training)
    for found, expected in ((one + two, everything), (everything - one, two), (in_parts, everything)):
        for a, b in zip(numbers(found), numbers(expected), strict=True):
            assert a == pytest.approx(b, abs=1e-6)


def test_a_comparison_leaves_every_group_out_once():
    cohort = Cohort.of([[["A", "B"]], [["B", "C"]], [["A", "B"]]])
    one = Comparison.of(cohort, cohort, cohort)
    groups = comparisons.patient_groups(3, one.seed)
    for group, rest in enumerate(one.counts_without_groups(PairCounts)):
        expected = PairCounts.count(cohort.subset(np.flatnonzero(groups != group))).together
        assert (rest.together != expected).nnz == 0 and rest.together.nnz == expected.nnz
    without = Comparison.of(cohort, cohort, cohort, intervals=False)
    assert not list(without.counts_without_groups(PairCounts))


def test_groups_are_even_seeded_and_never_more_than_patients():
    groups = comparisons.patient_groups
    assert np.bincount(groups(41, seed=1)).tolist() == [3] + [2] * 19
    assert groups(3, seed=1).max() == 2
    assert (groups(50, seed=1) == groups(50, seed=1)).all()
    assert (groups(50, seed=1) != groups(50, seed=2)).any()


counts = arrays(np.int64, (4, 5), elements=st.integers(0, 9))


def contexts(table: np.ndarray) -> Contexts:
    square = np.zeros((5, 5), dtype=np.int64)
    square[: len(table)] = table
    return Contexts.of(sparse.csr_matrix(square))


@given(counts, counts)
def test_divergence_is_the_square_of_scipys_distance(one: np.ndarray, two: np.ndarray):
    """scipy's jensenshannon is the square root of the divergence."""
    found = contexts(one).divergence(contexts(two))
    for row in range(4):
        if one[row].sum() == 0 or two[row].sum() == 0:
            assert np.isnan(found[row])
        else:
            assert found[row] == pytest.approx(jensenshannon(one[row], two[row]) ** 2, abs=1e-12)


@given(counts, st.integers(1, 5))
def test_top_neighbours_are_those_of_a_sort(table: np.ndarray, top: int):
    found = top_neighbours(sparse.csr_matrix(table), top)
    expected = []
    for row in range(4):
        order = sorted(np.flatnonzero(table[row]), key=lambda column: (-table[row, column], column))
        expected += sorted(row * 5 + int(column) for column in order[:top])
    assert found.tolist() == expected


def test_ties_at_the_last_place_go_to_the_smaller_code_string():
    """Counts 5, 2, 2 with room for two: the first and, of the two with 2, the one that sorts first."""
    assert top_neighbours(sparse.csr_matrix([[2, 5, 2]]), top=2).tolist() == [0, 1]


def test_overlap_of_tops_by_hand():
    """{1, 2, 3} and {2, 3, 4} share 2 of 4; a code without neighbours shares nothing."""
    one = contexts(np.array([[0, 1, 1, 1, 0], [0, 0, 0, 0, 0]]))
    two = contexts(np.array([[0, 0, 1, 1, 1], [1, 0, 0, 0, 0]]))
    assert one.shared_top(two)[:2].tolist() == [0.5, 0.0]


tables = arrays(np.int64, (4, 5), elements=st.integers(0, 6))


@given(tables, tables)
def test_r_squared_is_that_of_the_dense_tables_where_either_has_something(one: np.ndarray, two: np.ndarray):
    value, n = r_squared(sparse.csr_matrix(one), 7, sparse.csr_matrix(two), 11)
    either = (one > 0) | (two > 0)
    truth, guess = one[either] / 7, two[either] / 11
    assert n == either.sum()
    if len(truth) < 2 or np.ptp(truth) == 0:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(r2_score(truth, guess), abs=1e-9)


def test_sequential_pairs_stay_inside_a_patient():
    """A→B, A→C once each in the first record; the second record starts anew, so C→A is not counted."""
    counts = SequentialCounts.count(Cohort.of([[["A"], ["B", "C"]], [["A"]]]))
    assert counts.together.toarray().tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert counts.places == 1


def test_without_a_place_there_is_no_agreement():
    empty = sparse.csr_matrix((2, 2), dtype=np.int64)
    assert np.isnan(r_squared(empty, 0, empty, 0)[0])
