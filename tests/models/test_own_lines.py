"""What is kept of each patient is what is found when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.models import own_lines as module
from adapcla.models.batch import Batch, Origin, Records
from adapcla.models.own_lines import KeptLines, OwnLines
from adapcla.models.visit_entries import Whose

PATIENTS = [[["A", "B"]], [["A"], ["B", "C"]], [["C"], ["A"]]]
RECORDS = Records(Cohort.of(PATIENTS, ["A", "B", "C"]), 48)


def every_entry(batch: Batch) -> OwnLines:
    """A line for each entry, of its own code and with ten times its number as change."""
    return OwnLines(batch.visit_of_entry, batch.codes, batch.codes, 10 * batch.codes)


def one_line() -> OwnLines:
    """What is found where nothing is kept."""
    return OwnLines(torch.tensor([0]), torch.tensor([1]), torch.tensor([1]), torch.tensor([10]))


def never() -> OwnLines:
    raise AssertionError("what is kept is not to be found again")


def asked(patients: list[int], mark: int | None = None) -> Whose:
    """Some patients, whose visits are computed in reverse order."""
    batch = RECORDS.batch(np.array(patients))
    row = torch.arange(batch.n_visits).flip(0)
    origin = Origin(RECORDS.mark if mark is None else mark, torch.tensor(patients))
    return Whose(batch.patient_of_visit.flip(0), row, batch.first_visits, origin)


@pytest.mark.parametrize("at_once", [1, 512])
def test_lines_are_those_of_the_visits_wherever_they_stand(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENTS_AT_ONCE", at_once)
    kept = KeptLines()
    kept.keep(RECORDS, torch.arange(3), every_entry)
    lines, values = kept.of(asked([2, 1]), never, lambda kinds: kinds / 2.0)
    # C; A; A; B and C, from the last row to the first.
    assert lines.visits.tolist() == [3, 2, 1, 0, 0] and lines.speakers.tolist() == [2, 0, 0, 1, 2]
    assert values.tolist() == [10.0, 0.0, 0.0, 5.0, 10.0]
    in_order = asked([2, 1])._replace(row_of_visit=None)
    assert kept.of(in_order, never, lambda kinds: kinds)[0].visits.tolist() == [0, 1, 2, 3, 3]


def test_other_records_and_too_many_lines_are_gone_through_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptLines()
    kept.keep(RECORDS, torch.arange(3), every_entry)
    assert kept.of(asked([2], mark=-1), one_line, lambda kinds: kinds)[0].speakers.tolist() == [1]
    monkeypatch.setattr(module, "_MOST_LINES", 3)
    kept.keep(RECORDS, torch.arange(3), every_entry)
    assert kept.mark is None
    assert kept.of(asked([2]), one_line, lambda kinds: kinds)[0].speakers.tolist() == [1]


def test_records_are_known_by_their_visits() -> None:
    apart = [[["A"], ["B"]], *PATIENTS[1:]]
    same, other = (Records(Cohort.of(patients, ["A", "B", "C"]), 48) for patients in (PATIENTS, apart))
    assert same.mark == RECORDS.mark != other.mark
