"""Packed batches hold every visit once, step by step, longest record first."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla import Cohort
from adapcla.evaluation.classifier import FlatVisits, pack


@st.composite
def batches(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    codes = iter(range(100))
    cohort = Cohort.of([[[f"C{next(codes):02d}"] for _ in range(n)] for n in sizes])
    return cohort, np.array(draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=8)))


@given(batch=batches())
@settings(max_examples=100, deadline=None)
def test_following_a_patient_through_the_time_steps_gives_the_record(batch):
    cohort, rows = batch
    packed = pack(FlatVisits.of(cohort, np.arange(cohort.n_codes)), rows)
    visits = [packed.codes[a:b].tolist() for a, b in zip(packed.visit_starts, packed.visit_starts[1:], strict=False)]
    steps = np.concatenate([[0], np.cumsum(packed.widths)])
    for rank, row in enumerate(packed.order):
        first, stop = cohort.patient_starts[rows[row]], cohort.patient_starts[rows[row] + 1]
        record = [[int(cohort.codes[v])] for v in range(first, stop)]
        assert [visits[steps[t] + rank] for t in range(len(record))] == record
    assert sorted(packed.order) == list(range(len(rows)))
    assert packed.widths[0] == len(rows)
    assert all(a >= b for a, b in zip(packed.widths, packed.widths[1:], strict=False))
    assert sum(packed.widths) == sum(cohort.visits_per_patient[rows])


def test_codes_never_seen_in_training_leave_an_empty_visit():
    flat = FlatVisits.of(Cohort.of([[["A"], ["B"]]]), np.array([0, -1]))
    packed = pack(flat, np.array([0]))
    assert packed.codes.tolist() == [0]
    assert packed.visit_starts.tolist() == [0, 1, 1]
