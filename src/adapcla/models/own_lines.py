"""What is said when a training patient is left out of all counts: found once for every patient, and looked up.

Which counts leave their band without a patient depends on the records alone. What a change of bands means is learned,
and so computed in every step: for each kind of change once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adapcla.models.batch import Batch, Records
from adapcla.models.kernels.taken import taken
from adapcla.models.visit_entries import Whose, spread

#: Lines that are kept for all patients together, at most 14 bytes each; of cohorts that have more none are kept.
_MOST_LINES = 1 << 24
#: Patients that are gone through at a time.
_PATIENTS_AT_ONCE = 128


class OwnLines(NamedTuple):
    """What single codes of single visits say otherwise if the patient is left out."""

    visits: Tensor  # (lines,) ascending
    speakers: Tensor  # (lines,) the code that speaks, or none where nobody asks
    whom: Tensor  # (lines,) the code, or the family, that it speaks of
    change: Tensor  # (lines,) which change of bands


class KeptLines(nn.Module):
    """The lines of all training patients, or of none where they would be too many."""

    def __init__(self) -> None:
        super().__init__()
        self.mark: int | None = None
        self.starts: Tensor
        self.kinds: Tensor
        for name in ("starts", "kinds"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64), persistent=False)
        self.visits: Tensor
        self.speakers: Tensor
        self.whom: Tensor
        self.change: Tensor
        for name in OwnLines._fields:
            self.register_buffer(name, torch.zeros(0, dtype=torch.int32), persistent=False)

    def keep(self, records: Records, rank_of_code: Tensor, lines_of: Callable[[Batch], OwnLines]) -> None:
        """Find the lines of all patients, codes by rank, unless they are too many."""
        self.mark, found, numbers, n_lines = None, [], [], 0
        for batch in some_patients(records, rank_of_code):
            lines = lines_of(batch)
            patient = batch.patient_of_visit.index_select(0, lines.visits)
            visits = lines.visits - batch.first_visits.index_select(0, patient)
            small = torch.int16 if records.context < 1 << 15 else torch.int32
            found.append(OwnLines(visits.to(small), lines.speakers.int(), lines.whom.int(), lines.change.int()))
            numbers.append(torch.bincount(patient, minlength=batch.n_patients))
            n_lines += len(visits)
            if n_lines > _MOST_LINES:
                return
        if not found:
            return
        self.visits, self.speakers, self.whom, change = (torch.cat(parts) for parts in zip(*found, strict=True))
        kinds, change = torch.unique(change, return_inverse=True)
        self.kinds, self.change = kinds.long(), change.int()
        self.starts = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(torch.cat(numbers), 0)])
        self.mark = records.mark

    def of(
        self, whose: Whose, lines_of: Callable[[], OwnLines], changes: Callable[[Tensor], Tensor]
    ) -> tuple[OwnLines, Tensor]:
        """The lines of some visits and what each adds, where `changes` says what kinds of changes add.

        Lines that are not kept are found as `lines_of` finds them.
        """
        if whose.origin is None or whose.origin.mark != self.mark:
            lines = lines_of()
            return lines, changes(lines.change)
        begin, end = (self.starts.index_select(0, whose.origin.patients + more) for more in (0, 1))
        patient, line = spread(begin, end)
        visits, whom, change = (kept.index_select(0, line) for kept in (self.visits, self.whom, self.change))
        speakers = self.speakers.index_select(0, line) if len(self.speakers) else self.speakers
        visits = whose.first_visits.index_select(0, patient) + visits
        rows = visits if whose.row_of_visit is None else whose.row_of_visit.index_select(0, visits)
        return OwnLines(rows, speakers, whom.long(), change), taken(changes(self.kinds), change)


def some_patients(records: Records, rank_of_code: Tensor) -> Iterator[Batch]:
    """Some patients at a time, codes by rank."""
    for low in range(0, records.cohort.n_patients, _PATIENTS_AT_ONCE):
        batch = records.batch(np.arange(low, min(low + _PATIENTS_AT_ONCE, records.cohort.n_patients)))
        yield replace(batch, codes=rank_of_code[batch.codes])
