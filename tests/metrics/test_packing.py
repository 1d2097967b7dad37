"""Packed batches hold every visit once, in order, and mirror each record."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla import Cohort
from adapcla.metrics.packing import NOBODY, FlatVisits, pack


def visits_read(flat, packed, n_models, table_size):
    """Codes of each slot, model by model, with the model's shift taken off."""
    starts = packed.slot_starts.reshape(-1)
    slots = [packed.codes[starts[i] : starts[i + 1]] for i in range(len(starts) - 1)]
    per_model = len(slots) // n_models
    return [[(slots[m * per_model + s] - m * table_size).tolist() for s in range(per_model)] for m in range(n_models)]


@st.composite
def batches(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    codes = iter(range(100))
    cohort = Cohort.of([[[f"C{next(codes):02d}"] for _ in range(n)] for n in sizes])
    places = st.integers(NOBODY, len(sizes) - 1)
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(places, min_size=width, max_size=width), min_size=1, max_size=3))
    return cohort, np.array(rows)


@given(batch=batches())
@settings(max_examples=100, deadline=None)
def test_following_a_patient_through_the_slots_gives_the_record_in_both_directions(batch):
    cohort, rows = batch
    flat = FlatVisits.of(cohort, np.arange(cohort.n_codes))
    packed = pack(flat, rows, cohort.n_codes)
    read = visits_read(flat, packed, len(rows), cohort.n_codes)
    starts = np.concatenate([[0], np.cumsum(packed.widths)])
    for m, row in enumerate(rows):
        for b, patient in enumerate(row):
            if patient == NOBODY:
                continue
            first, stop = cohort.patient_starts[patient], cohort.patient_starts[patient + 1]
            record = [[int(cohort.codes[v])] for v in range(first, stop)]
            rank = packed.last[m, b] - starts[len(record) - 1]
            slots = [starts[t] + rank for t in range(len(record))]
            assert [read[m][s] for s in slots] == record
            assert [read[m][packed.mirror[m, s]] for s in slots] == record[::-1]
    assert packed.widths[0] == rows.shape[1]
    assert all(a >= b for a, b in zip(packed.widths, packed.widths[1:], strict=False))


def test_codes_never_seen_in_training_leave_an_empty_visit():
    flat = FlatVisits.of(Cohort.of([[["A"], ["B"]]]), np.array([0, -1]))
    packed = pack(flat, np.array([[0]]), 1)
    assert packed.codes.tolist() == [0]
    assert packed.slot_starts.tolist() == [0, 1, 1]
