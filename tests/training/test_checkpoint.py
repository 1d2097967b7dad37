"""Checkpoints: whole or absent, two generations, one process."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from adapcla import files
from adapcla.errors import AdapclaError, ExistsError
from adapcla.training.checkpoint import Checkpoints


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
