"""The doctor: what it finds, and that it notices what is wrong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from adapcla.pipeline import doctor
from adapcla.version import __version__


def test_it_names_versions_and_room(tmp_path: Path) -> None:
    found = doctor.examined(tmp_path)
    assert found["adapcla"] == __version__
    assert found["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["processors"] >= 1 and found["disk free GB"] >= 0
    assert set(found["extras"]) == {"codes", "fhir", "dp"}


def test_too_many_threads_and_too_little_room_are_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 0)
    monkeypatch.setattr(doctor, "available_bytes", lambda: 5 * 10**8)
    monkeypatch.setattr(doctor, "_LITTLE_DISK", float("inf"))
    assert len(doctor.examined(tmp_path)["warnings"]) == 3


def test_every_check_passes_here_and_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("ADAPCLA_QUIET", "1")
    checks = doctor.self_test()
    assert len(checks) == 4 and all(check.passed for check in checks), checks


def test_a_check_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_keeps_patients", lambda _: 1 / 0)
    monkeypatch.setenv("ADAPCLA_QUIET", "1")
    first = doctor.self_test()[0]
    assert not first.passed and "ZeroDivisionError" in first.found
