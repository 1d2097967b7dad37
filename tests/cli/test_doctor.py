"""`adapcla doctor` for people and machines."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.pipeline import doctor


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPCLA_QUIET", "1")


def test_without_the_test_it_only_looks() -> None:
    ended = CliRunner().invoke(app, ["doctor", "--no-test"])
    assert ended.exit_code == 0
    assert "torch" in ended.stdout and "ok  " not in ended.stdout


def test_a_failed_check_is_told_and_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = doctor.Check("draw patients", False, 0.1, "other patients")
    monkeypatch.setattr(doctor, "self_test", lambda: [bad])
    ended = CliRunner().invoke(app, ["doctor", "--json"])
    assert json.loads(ended.stdout)["checks"] == [bad._asdict()]
    assert ended.exit_code == 1 and "draw patients" in str(ended.exception)
