"""Memory, processors and the number of this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from adapcla import machine


def test_what_is_free_is_the_least_of_all_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, n in (("_of_machine", 50), ("_of_container", None), ("_of_limit", 20)):
        monkeypatch.setattr(machine, name, lambda n=n: n)
    assert machine.available_bytes() == 20
    monkeypatch.setattr(machine, "_of_limit", lambda: -5)
    assert machine.available_bytes() == 0


@pytest.mark.parametrize(
    ("environment", "index"),
    [({}, 0), ({"RANK": "3"}, 0), ({"WORLD_SIZE": "1", "RANK": "0"}, 0), ({"WORLD_SIZE": "4", "RANK": "3"}, 3)],
)
def test_the_number_of_a_process_is_what_its_launcher_says(
    environment: dict[str, str], index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.process_index() == index


def test_the_peak_of_memory_counts_anew_after_it_was_forgotten() -> None:
    """200 MB are taken and given back: the peak holds them, and where the system can it forgets them."""
    block = bytearray(200_000_000)
    block[::4096] = b"x" * len(block[::4096])
    del block
    before = machine.peak_memory_mb()
    machine.forget_peak_memory()
    assert machine.peak_memory_mb() <= before


@pytest.mark.parametrize(
    ("environment", "requested", "threads"),
    [("", 0, 1), ("4", 0, 4), ("4,2", 0, 4), ("4", 2, 2), ("many", 0, 1), ("0", 0, 1)],
)
def test_one_thread_unless_somebody_says_otherwise(
    environment: str, requested: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert machine.thread_count(requested) == threads


@pytest.mark.parametrize(("set_to", "threads"), [(None, 1), ("2", 2)])
def test_the_command_line_computes_with_that_many(set_to: str | None, threads: int) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    asked = {} if set_to is None else {"OMP_NUM_THREADS": set_to}
    command = [sys.executable, "-m", "adapcla", "doctor", "--no-test", "--json"]
    done = subprocess.run(command, env=kept | asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["threads"] == threads
