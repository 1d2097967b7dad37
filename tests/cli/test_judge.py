"""The verb `judge`, with a stand-in for the panel's judges."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.judges import panel, table
from adapcla.judges.table import JUDGES


@pytest.fixture
def folders(tmp_path, monkeypatch):
    train, _, test = Cohort.of([[["A", "B"], ["A"]], [["C"]], [["B"], ["C"]]] * 30).split(seed=4)
    train.save(tmp_path / "train")
    test.save(tmp_path / "test")
    Cohort.of([[["A"], ["B"]]] * 40).save(tmp_path / "made")
    script = tmp_path / "script.py"
    script.write_text("def version(folder):\n    return '1'\n\ndef verdicts(folder):\n    return {'score': 0.5}\n")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    stand_in = replace(JUDGES["sdmetrics"], name="stand-in", script=str(script), requirements=(), python=here)
    monkeypatch.setattr(table, "JUDGES", {"stand-in": stand_in})
    monkeypatch.setattr(panel, "ours", lambda *_: [])
    return tmp_path


def run(folders, *more: str):
    words = ["judge", str(folders / "made"), "--train", str(folders / "train"), "--test", str(folders / "test")]
    words += ["--out", str(folders / "out"), "--environments", str(folders / "environments"), *more]
    return CliRunner().invoke(app, words)


def test_verdicts_are_printed_and_written(folders):
    ran = run(folders)
    assert ran.exit_code == 0, ran.output
    assert "| stand-in | 1 | score | 0.500 | 0.500 |" in ran.output
    assert (folders / "out" / "verdicts.json").is_file()


def test_machine_output_is_one_object(folders):
    ran = run(folders, "--json")
    assert json.loads(ran.stdout.strip().splitlines()[-1])["verdicts"][0]["synthetic"] == 0.5


def test_an_unknown_judge_is_refused_before_anything_is_read(folders):
    ran = run(folders, "--judges", "mirror")
    assert isinstance(ran.exception, UsageError)
    assert "stand-in" in str(ran.exception)
