"""Files that are whole or absent, hashes, JSON and the lock of a folder."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adapcla import files
from adapcla.errors import ExistsError, InputError
from adapcla.files import folder_lock


class Crash(BaseException):
    """Stands for anything that ends a process in the middle."""


@pytest.mark.parametrize(
    "text", ["[1]", "nonsense", "[" * 100_000, '"\ud800"'.encode("utf-8", "surrogatepass").decode("latin-1")]
)
def test_json_that_is_not_an_object_is_named(tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        files.read_json(tmp_path / "x.json")


def test_other_failures_of_the_disk_are_not_called_full(tmp_path):
    with pytest.raises(PermissionError), files.full_disk_explained(tmp_path, 1):
        raise PermissionError(errno.EACCES, "no")


def test_small_files_are_whole_or_absent(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    files.write_bytes(path, b"old")

    def fail(_: Path) -> None:
        raise Crash

    monkeypatch.setattr(files, "sync", fail)
    with pytest.raises(Crash):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_small_file_on_a_full_disk_says_how_many_bytes(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ExistsError, match="1,234 bytes"):
        files.write_bytes(tmp_path / "x", bytes(1234))


def test_hash_reads_more_than_one_piece(tmp_path):
    (tmp_path / "x").write_bytes(bytes(range(256)) * 9000)
    assert files.sha256_of(tmp_path / "x") == hashlib.sha256(bytes(range(256)) * 9000).hexdigest()


@pytest.mark.parametrize(
    ("point", "found"), [("write", b"old"), ("fsync", b"old"), ("rename", b"old"), ("folder", b"new")]
)
def test_a_process_killed_inside_a_write_leaves_the_old_or_the_new(tmp_path, point, found):
    (tmp_path / "x").write_bytes(b"old")
    code = "import sys, pathlib; from adapcla import files; files.write_bytes(pathlib.Path(sys.argv[1]), b'new')"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        env=os.environ | {"ADAPCLA_CRASH_AT": f"{point}:1"},
        check=False,
    )
    assert ended.returncode == -9
    assert (tmp_path / "x").read_bytes() == found
    files.remove_leftovers(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_was_moved_aside_comes_back(tmp_path):
    """Killed between the two renames of a replacement: the old folder is there under another name only."""
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "x").write_text("old")
    folder.rename(tmp_path / f".c.{'0' * 32}.old")
    (tmp_path / f".c.{'1' * 32}.tmp").mkdir()
    (tmp_path / ".c.notes.tmp").write_text("somebody else's")
    files.remove_leftovers(folder)
    assert (folder / "x").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".c.notes.tmp", "c"]


def _hold(folder: str, ready: multiprocessing.synchronize.Event) -> None:  # type: ignore[name-defined]
    with folder_lock(Path(folder)):
        ready.set()
        signal.pause()


def test_a_second_process_is_refused_and_a_dead_one_is_not_in_the_way(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(ExistsError, match="in use"), folder_lock(tmp_path):
        pass
    holder.kill()
    holder.join()
    with folder_lock(tmp_path):
        pass


def test_a_process_that_holds_a_folder_may_ask_again(tmp_path: Path) -> None:
    with folder_lock(tmp_path), folder_lock(tmp_path):
        pass
    with folder_lock(tmp_path):
        pass
