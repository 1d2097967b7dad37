"""Patients as packed tensors: real visits only, no padding, no dense multi-hot row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Cohort
from adapcla.data.ragged import expand_ranges

#: Slots of a line that several records share.
SHARED = 16
#: Longer records lie together with those that are at most so many times as long.
_RATIO = 1.25


class Lines(NamedTuple):
    """Lines of one length."""

    rows: Tensor  # (lines, slots) the state row that lies there; padding repeats row 0
    mask: Tensor | None  # (lines, 1, slots, slots) 0 where a slot sees another, −∞ elsewhere; None: all before it


class AttentionLines(NamedTuple):
    """Where every row of a batch lies."""

    lines: tuple[Lines, ...]
    slot_of_row: Tensor  # (rows,) a slot of each row, counted through all lines; one of several for start rows


def attention_lines(lengths: NDArray[np.int64], start_of_patient: NDArray[np.int64], n_starts: int) -> AttentionLines:
    """Lines for records of these lengths, each a start row and then its own rows, which follow each other by patient.

    >>> found = attention_lines(np.array([2, 1]), np.array([0, 0]), 1)
    >>> found.lines[0].rows[0, :6].tolist()  # start, rows 1 and 2, then start and row 3, then padding
    [0, 1, 2, 0, 3, 0]
    >>> found.slot_of_row.tolist()
    [3, 1, 2, 4]
    """
    first = n_starts + np.cumsum(lengths) - lengths
    slot_of_row = np.zeros(n_starts + int(lengths.sum()), dtype=np.int64)
    lines, begin = [], 0
    tier = np.ceil(np.log(np.maximum(lengths + 1, SHARED) / SHARED) / np.log(_RATIO) - 1e-9).astype(np.int64)
    for number in np.unique(tier):
        members = np.flatnonzero(tier == number)
        sizes = lengths[members] + 1
        slots = SHARED if number == 0 else int(sizes.max())
        line, at = _first_fit(sizes, slots) if number == 0 else (np.arange(len(sizes)), np.zeros(len(sizes), np.int64))
        n_lines = int(line.max()) + 1
        here = expand_ranges(line * slots + at, line * slots + at + sizes)
        rows, owner = np.zeros(n_lines * slots, dtype=np.int64), np.full(n_lines * slots, -1, dtype=np.int64)
        own = expand_ranges(first[members] - 1, first[members] - 1 + sizes)
        own[np.cumsum(sizes) - sizes] = start_of_patient[members]
        rows[here], owner[here] = own, np.repeat(members, sizes)
        slot_of_row[own] = begin + here
        mask = _mask(owner.reshape(n_lines, slots)) if number == 0 else None
        lines.append(Lines(torch.as_tensor(rows.reshape(n_lines, slots)), mask))
        begin += n_lines * slots
    return AttentionLines(tuple(lines), torch.as_tensor(slot_of_row))


def _first_fit(sizes: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The line of each record and the slot where it begins: the largest first, each where it fits most tightly."""
    line, at = np.empty(len(sizes), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    with_room: list[list[int]] = [[] for _ in range(slots + 1)]
    n_lines = 0
    for record in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[record])
        room = next((room for room in range(size, slots + 1) if with_room[room]), slots)
        if not with_room[room]:
            with_room[room].append(n_lines)
            n_lines += 1
        line[record], at[record] = with_room[room].pop(), slots - room
        with_room[room - size].append(int(line[record]))
    return line, at


def _mask(owner: NDArray[np.int64]) -> Tensor:
    """What each slot sees: its own record up to itself; padding sees padding, so that no row of weights is empty."""
    slots = owner.shape[1]
    sees = (owner[:, :, None] == owner[:, None, :]) & np.tril(np.ones((slots, slots), dtype=bool))
    return torch.as_tensor(np.where(sees, np.float32(0), np.float32(-np.inf))[:, None])


@dataclass(frozen=True, eq=False)
class CodeOrder:
    """The numbering of codes inside a network: by position, in the order in which a visit is drawn.

    It is applied where patients become batches and biases are added to logits, and taken back where what was drawn
    becomes a cohort. In between, in models, training and sampling, codes are positions.

    >>> order = CodeOrder(np.array([2, 0, 1]))
    >>> order.encode(np.array([0, 2])).tolist(), order.decode(np.array([1, 0])).tolist()
    ([1, 0], [0, 2])
    """

    code_at: NDArray[np.int64]  # (codes,) the code of the vocabulary at each position

    @cached_property
    def position_of(self) -> NDArray[np.int64]:
        """(codes,) the position of each code of the vocabulary."""
        return np.argsort(self.code_at)

    def encode(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """The positions of codes of the vocabulary."""
        return self.position_of[codes]

    def decode(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes at positions."""
        return self.code_at[positions]

    def arrange(self, values: Tensor) -> Tensor:
        """Values (codes,) of the vocabulary, by position."""
        return values[torch.from_numpy(self.code_at)]


class LengthGroup(NamedTuple):
    """Patients with the same number of visits, as state rows: the start row first, then the visits in order."""

    rows: Tensor  # (patients, visits + 1)


@dataclass(frozen=True)
class Batch:
    """Some patients, packed.

    State rows are numbered: first the distinct start states (one for each combination of static attributes that
    occurs), then one row per visit. The state of a row has seen everything up to that row and predicts what follows,
    so visit v of a patient is predicted by the row before it. Start rows are shared: patients without a history are
    the same patient to the network, and their logits are computed once.
    """

    n_patients: int
    n_starts: int
    codes: Tensor  # (entries,) code positions, visit by visit
    offsets: Tensor  # (visits,) where each visit begins in `codes`
    visit_of_entry: Tensor  # (entries,)
    position: Tensor  # (visits,) 0 for the first visit of a patient
    patient_of_visit: Tensor  # (visits,)
    row_before: Tensor  # (visits,) the state row that predicts this visit
    continues: Tensor  # (visits,) 1.0 where another visit follows
    gap: Tensor  # (visits,) days since the visit before, 0 for a first visit
    start_of_patient: Tensor  # (patients,) start row of each patient
    start_attributes: Tensor  # (starts, attributes) category + 1, 0 for unknown
    attention: AttentionLines

    @property
    def first_visits(self) -> Tensor:
        """(patients,) the first visit of each."""
        lengths = torch.bincount(self.patient_of_visit, minlength=self.n_patients)
        return torch.cumsum(lengths, 0) - lengths

    @property
    def n_visits(self) -> int:
        """Number of visits in the batch."""
        return int(self.offsets.shape[0])

    def lacks(self, code: int) -> Tensor:
        """(visits,) 1.0 where the visit does not hold this code."""
        held = self.visit_of_entry[self.codes == code]
        return torch.ones(self.n_visits).index_fill(0, held, 0.0)

    @property
    def groups(self) -> tuple[LengthGroup, ...]:
        """Patients by their exact number of visits, for readers that cannot pass over padding; the shortest first."""
        lengths = torch.bincount(self.patient_of_visit, minlength=self.n_patients)
        first_row = self.n_starts + self.first_visits
        groups = []
        for length in torch.unique(lengths).tolist():
            members = (lengths == length).nonzero()[:, 0]
            visits = first_row[members][:, None] + torch.arange(length)
            groups.append(LengthGroup(torch.cat([self.start_of_patient[members][:, None], visits], dim=1)))
        return tuple(groups)


@dataclass(frozen=True, eq=False)
class Records:
    """A cohort made ready for batches: histories cut at the context length, attributes as one integer matrix."""

    cohort: Cohort
    context: int
    #: The numbering of codes in batches; None leaves them numbered as in the vocabulary.
    order: CodeOrder | None = None

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Static attributes in their fixed order."""
        return tuple(sorted(self.cohort.attributes))

    @property
    def n_cut(self) -> int:
        """Visits beyond the context length, which are left out."""
        return int(np.maximum(self.cohort.visits_per_patient - self.context, 0).sum())

    @property
    def within_context(self) -> Cohort:
        """The cohort without the visits beyond the context length."""
        if not self.n_cut:
            return self.cohort
        first = self.cohort.first_visits
        return self.cohort.with_visits(first, first + np.minimum(self.cohort.visits_per_patient, self.context))

    def batch(self, patients: NDArray[np.int64]) -> Batch:
        """The packed batch of these patients."""
        cohort = self.cohort
        first = np.asarray(cohort.patient_starts)[patients]
        lengths = np.minimum(np.asarray(cohort.patient_starts)[patients + 1] - first, self.context)
        visits = expand_ranges(first, first + lengths)
        begins = np.asarray(cohort.visit_starts)[visits]
        sizes = np.asarray(cohort.visit_starts)[visits + 1] - begins
        codes: NDArray[np.integer] = np.asarray(cohort.codes)[expand_ranges(begins, begins + sizes)]
        codes = codes if self.order is None else self.order.encode(codes)
        gap = np.zeros(len(visits), dtype=np.int64)
        if cohort.days is not None:
            days = np.asarray(cohort.days)[visits].astype(np.int64)
            gap[1:] = np.maximum(np.diff(days), 0)
            gap[np.cumsum(lengths) - lengths] = 0
        return pack(codes, sizes, lengths, self.attribute_rows(patients), gap)

    def attribute_rows(self, patients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Attribute categories plus one (0 unknown) of these patients, one column per attribute."""
        columns = [np.asarray(self.cohort.attributes[n].values)[patients] + 1 for n in self.attribute_names]
        return np.stack(columns, axis=1).astype(np.int64) if columns else np.zeros((len(patients), 0), np.int64)


def pack(
    codes: NDArray[np.integer],
    sizes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    attributes: NDArray[np.int64],
    gap: NDArray[np.int64],
) -> Batch:
    """A batch on the default device from flat arrays: `sizes` codes per visit, `lengths` visits per patient."""
    n_visits = len(sizes)
    starts, start_of_patient = np.unique(attributes, axis=0, return_inverse=True)
    start_of_patient = start_of_patient.ravel()
    n_starts = len(starts)
    first_visit = np.cumsum(lengths) - lengths
    patient_of_visit = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(n_visits) - first_visit[patient_of_visit]
    row_before = np.where(position == 0, start_of_patient[patient_of_visit], n_starts + np.arange(n_visits) - 1)
    return Batch(
        n_patients=len(lengths),
        n_starts=n_starts,
        codes=torch.as_tensor(codes.astype(np.int64)),
        offsets=torch.as_tensor(np.cumsum(sizes) - sizes),
        visit_of_entry=torch.as_tensor(np.repeat(np.arange(n_visits), sizes)),
        position=torch.as_tensor(position),
        patient_of_visit=torch.as_tensor(patient_of_visit),
        row_before=torch.as_tensor(row_before),
        continues=torch.as_tensor((position + 1 < lengths[patient_of_visit]).astype(np.float32)),
        gap=torch.as_tensor(gap),
        start_of_patient=torch.as_tensor(start_of_patient.astype(np.int64)),
        start_attributes=torch.as_tensor(starts.astype(np.int64).reshape(n_starts, attributes.shape[1])),
        attention=attention_lines(lengths, start_of_patient, n_starts),
    )
