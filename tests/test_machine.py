"""Memory, processors and the number of this process."""

from __future__ import annotations

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
