"""Visit sequences of several classifiers side by side, without padding to the longest record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.records import Cohort
from adapcla.records.runs import ranges, starts_of

#: Marks an empty place in a table of patient positions.
NOBODY = -1


@dataclass(frozen=True, eq=False)
class FlatVisits:
    """The visits of a cohort with only the known codes, renumbered; a visit may have become empty.

    >>> cohort = Cohort.of([[["A", "B"], ["C"]], [["B"]]])
    >>> flat = FlatVisits.of(cohort, np.array([-1, 0, -1]))
    >>> flat.codes.tolist(), flat.visit_starts.tolist(), flat.patient_starts.tolist()
    ([0, 0], [0, 1, 1, 2], [0, 2, 3])
    """

    codes: NDArray[np.int64]
    visit_starts: NDArray[np.int64]
    patient_starts: NDArray[np.int64]

    @classmethod
    def of(cls, cohort: Cohort, new_position: NDArray[np.int64]) -> FlatVisits:
        """The cohort's visits with code c as `new_position[c]`, left out where that is negative."""
        codes = new_position[cohort.codes]
        kept = starts_of((codes >= 0).astype(np.int64))
        return cls(codes[codes >= 0], kept[cohort.visit_starts], np.asarray(cohort.patient_starts))


@dataclass(frozen=True, eq=False)
class Packed:
    """One batch of M classifiers × B patients as slots (time step, rank), ordered by time step.

    Inside each classifier's batch the patients are ranked longest record first. Time step t has `widths[t]` ranks: as
    many as the classifier with most records longer than t needs, so a slot may be idle for the others.
    """

    #: Codes of all slots, classifier by classifier, each shifted by its classifier's place in the stacked table.
    codes: NDArray[np.int64]
    #: Where each slot's codes begin, with the end as last element; M × slots + 1.
    slot_starts: NDArray[np.int64]
    widths: tuple[int, ...]
    #: The slot of the same visit when the record is read backwards, M × slots.
    mirror: NDArray[np.int64]
    #: The slot of the last visit of each patient, in the order of the rows given, M × B.
    last: NDArray[np.int64]


def pack(flat: FlatVisits, rows: NDArray[np.int64], table_size: int) -> Packed:
    """The batch of these patients, one row of positions a classifier; `NOBODY` leaves a place empty.

    >>> flat = FlatVisits.of(Cohort.of([[["A"]], [["B"], ["C"]]]), np.arange(3))
    >>> packed = pack(flat, np.array([[0, 1]]), table_size=3)
    >>> packed.widths, packed.codes.tolist(), packed.last.tolist(), packed.mirror.tolist()
    ((2, 1), [1, 0, 2], [[1, 2]], [[2, 1, 0]])
    """
    n_models = len(rows)
    somebody = rows >= 0
    first = np.where(somebody, flat.patient_starts[rows], 0)
    lengths = np.where(somebody, flat.patient_starts[rows + somebody] - first, 0)
    order = np.argsort(-lengths, axis=1, kind="stable")
    first, sorted_lengths = np.take_along_axis(first, order, 1), np.take_along_axis(lengths, order, 1)
    longest = max(int(sorted_lengths[:, 0].max()), 1)
    widths = np.array([(sorted_lengths > t).sum(axis=1).max() for t in range(longest)], dtype=np.int64)
    # Every patient has a rank at the first step, even an empty place: its slot is idle and its output is not read.
    widths[0] = rows.shape[1]
    step_starts = starts_of(widths)
    step = np.repeat(np.arange(longest), widths)
    rank = ranges(np.zeros(longest, dtype=np.int64), widths)

    length = sorted_lengths[:, rank]
    active = step < length
    slots = np.broadcast_to(np.arange(len(step)), active.shape)
    mirror = np.where(active, step_starts[np.where(active, length - 1 - step, 0)] + rank, slots)
    last = np.empty_like(rows)
    np.put_along_axis(last, order, step_starts[np.maximum(sorted_lengths - 1, 0)] + np.arange(rows.shape[1]), 1)

    visits = np.where(active, first[:, rank] + step, 0)
    begin = flat.visit_starts[visits]
    sizes = np.where(active, flat.visit_starts[visits + active] - begin, 0).ravel()
    begin = begin.ravel()
    shift = np.repeat(np.arange(n_models) * table_size, sizes.reshape(n_models, -1).sum(axis=1))
    codes = flat.codes[ranges(begin, begin + sizes)] + shift
    return Packed(codes, starts_of(sizes), tuple(int(w) for w in widths), mirror, last)
