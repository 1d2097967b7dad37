"""Packed batches: real visits only, start rows shared."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort
from adapcla.models.batch import Records


def test_rows_before_and_continuing_by_hand(tiny: Cohort) -> None:
    """Patients 0 (2 visits), 1 (1), 2 (2): one start row, visit rows 1 … 5.

    Visit 0 is predicted by the start row 0, visit 1 by row 1, visit 2 by 0, visit 3 by 0, visit 4 by row 4.
    """
    batch = Records(tiny, context=8).batch(np.arange(3))
    assert batch.n_starts == 1
    assert batch.row_before.tolist() == [0, 1, 0, 0, 4]
    assert batch.continues.tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert batch.codes.tolist() == [0, 1, 1, 2, 0, 1, 3, 0]
    assert batch.offsets.tolist() == [0, 2, 3, 4, 7]
    assert [group.rows.tolist() for group in batch.groups] == [[[0, 3]], [[0, 1, 2], [0, 4, 5]]]


def test_start_rows_are_one_for_each_combination_of_attributes(tiny_full: Cohort) -> None:
    """Sex is F, M, unknown: three distinct start rows, coded 1, 2, 0."""
    batch = Records(tiny_full, context=8).batch(np.arange(3))
    assert batch.start_attributes.tolist() == [[0], [1], [2]]
    assert batch.start_of_patient.tolist() == [1, 2, 0]
    assert batch.gap.tolist() == [0, 30, 0, 0, 7]


def test_histories_are_cut_at_the_context_and_counted(tiny: Cohort) -> None:
    records = Records(tiny, context=1)
    assert records.n_cut == 2
    batch = records.batch(np.arange(3))
    assert batch.n_visits == 3
    assert batch.continues.tolist() == [0.0, 0.0, 0.0]


def test_what_is_seen_ends_at_the_context():
    records = Records(Cohort.of([[["A"]], [["A"], ["B"], ["C"]]]), 2)
    assert list(records.within_context.patients()) == [[["A"]], [["A"], ["B"]]]
    whole = Records(records.cohort, 3)
    assert whole.within_context is whole.cohort
