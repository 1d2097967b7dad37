"""The journal survives a torn line and forgets what was undone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from adapcla.errors import ExistsError
from adapcla.training.checkpoint import Journal, loss_curves


def test_resuming_forgets_later_steps_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal(path)
    for step in (1, 2, 3):
        first.write(kind="step", step=step)
    with path.open("a") as stream:
        stream.write('{"kind": "st')
    again = Journal(path)
    again.resume(step=2)
    assert [line["step"] for line in again.lines] == [1, 2]
    again.write(kind="step", step=3)
    assert path.read_text().count("\n") == 3


def test_without_a_file_it_only_remembers() -> None:
    journal = Journal()
    journal.write(kind="a")
    journal.resume(3)
    assert journal.of_kind("a") == [{"kind": "a"}] and journal.of_kind("b") == []


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ExistsError, match="bytes are needed"):
        Journal(tmp_path / "journal.jsonl").write(kind="step", step=1)


def test_the_curves_of_a_run_are_read_while_it_is_written(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.write(kind="step", step=1, loss=3.0)
    journal.write(kind="step", step=2)  # of a private run, whose losses are not told
    journal.write(kind="validation", step=2, loss=2.5)
    with path.open("a") as stream:
        stream.write('{"kind": "step", "st')
    assert loss_curves(path) == ([(1.0, 3.0)], [(2.0, 2.5)])
