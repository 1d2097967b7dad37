"""Checkpoints that survive a kill, and the journal of a run."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from adapcla import files
from adapcla.errors import AdapclaError, ExistsError
from adapcla.training.checkpoint import Checkpoints, Journal, loss_curves


def _saved(folder: Path, *steps: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for step in steps:
        checkpoints.save(step, {"w": torch.full((3,), float(step))}, {"step": step})
    return checkpoints


def test_the_newest_is_found_with_its_state(tmp_path: Path) -> None:
    tensors, state = _saved(tmp_path, 1, 2, 3).latest()  # type: ignore[misc]
    assert state == {"step": 3} and tensors["w"].tolist() == [3.0, 3.0, 3.0]
    assert len(list((tmp_path / "checkpoints").glob("*.safetensors"))) == 2


def test_a_damaged_newest_gives_way_to_the_one_before(tmp_path: Path) -> None:
    checkpoints = _saved(tmp_path, 1, 2)
    newest = tmp_path / "checkpoints" / "step-000000002.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(bytes(content))
    assert checkpoints.latest()[1] == {"step": 1}  # type: ignore[index]


def test_nothing_that_is_not_finite_is_written(tmp_path: Path) -> None:
    checkpoints = _saved(tmp_path, 1)
    with pytest.raises(AdapclaError, match="not finite"):
        checkpoints.save(2, {"w": torch.tensor([float("nan")])}, {})
    assert checkpoints.latest()[1] == {"step": 1}  # type: ignore[index]


@pytest.mark.parametrize("point", ["write", "sync", "rename"])
def test_a_full_disk_leaves_the_last_checkpoint(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = _saved(tmp_path, 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = {"write": (Path, "write_bytes"), "sync": (files, "sync"), "rename": (Path, "replace")}[point]
    monkeypatch.setattr(*target, full)
    with pytest.raises(ExistsError, match=r"bytes are needed"):
        checkpoints.save(2, {"w": torch.zeros(3)}, {})
    monkeypatch.undo()
    assert checkpoints.latest()[1] == {"step": 1}  # type: ignore[index]
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_what_a_killed_process_left_half_written_is_removed_by_the_next_save(tmp_path: Path) -> None:
    checkpoints = _saved(tmp_path, 1)
    (tmp_path / "checkpoints" / ".step-000000002.safetensors.0.tmp").write_bytes(b"half")
    (tmp_path / "checkpoints" / "step-000000002.safetensors").write_bytes(b"complete, but nothing points at it")
    assert checkpoints.latest()[1] == {"step": 1}  # type: ignore[index]
    _saved(tmp_path, 3)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        "LATEST.json", "step-000000001.safetensors", "step-000000003.safetensors",
    }  # fmt: skip


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
