"""Records of a batch of patients as torch packs them: time step by time step, longest record first, no padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.ragged import expand_ranges, starts_from_sizes


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
        kept = starts_from_sizes((codes >= 0).astype(np.int64))
        return cls(codes[codes >= 0], kept[cohort.visit_starts], np.asarray(cohort.patient_starts))


@dataclass(frozen=True, eq=False)
class Packed:
    """The visits of a batch of patients: first all first visits, then all second visits, and so on."""

    #: Codes of all visits, and where each visit's codes begin, with the end as last element.
    codes: NDArray[np.int64]
    visit_starts: NDArray[np.int64]
    #: Visits at each time step.
    widths: NDArray[np.int64]
    #: The rows, longest record first: the order of the visits of a time step.
    order: NDArray[np.int64]


def pack(flat: FlatVisits, rows: NDArray[np.int64]) -> Packed:
    """The batch of the patients in these rows.

    >>> flat = FlatVisits.of(Cohort.of([[["A"]], [["B"], ["C"]]]), np.arange(3))
    >>> packed = pack(flat, np.array([0, 1]))
    >>> packed.widths.tolist(), packed.codes.tolist(), packed.order.tolist()
    ([2, 1], [1, 0, 2], [1, 0])
    """
    first = flat.patient_starts[rows]
    lengths = flat.patient_starts[rows + 1] - first
    order = np.argsort(-lengths, kind="stable")
    # How many records are longer than 0, 1, 2, … visits.
    widths = len(rows) - np.cumsum(np.bincount(lengths))[:-1]
    rank = expand_ranges(np.zeros_like(widths), widths)
    visits = first[order][rank] + np.repeat(np.arange(len(widths)), widths)
    begin, end = flat.visit_starts[visits], flat.visit_starts[visits + 1]
    return Packed(flat.codes[expand_ranges(begin, end)], starts_from_sizes(end - begin), widths, order)
