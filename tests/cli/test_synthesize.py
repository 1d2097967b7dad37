"""The verb: its plan, its words when the gate is not met, and what it refuses at once."""

from __future__ import annotations

import json

import pytest
from tests.conftest import ACCEPTING, write_hospital_table
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.errors import GateError, InputError, UsageError
from adapcla.evaluation.privacy import GateLine
from adapcla.release import plan as module

QUICK = (
    "--method", "marginal", "--set", "data.planted.patients=520", "--set", "data.planted.codes=60",
    "--set", "evaluate.quick=true", "--set", 'evaluate.suites=["privacy"]', *ACCEPTING,
)  # fmt: skip


def run(*words):
    return CliRunner().invoke(app, ["synthesize", *map(str, words)])


def test_a_dry_run_shows_the_stages_and_writes_nothing(tmp_path):
    ran = run("planted", "--out", tmp_path / "out", "--dry-run", "--json")
    stages = [step["stage"] for step in json.loads(ran.stdout)["steps"]]
    assert stages == ["read", "vocabulary", "choose", "train", "sample", "evaluate real", "evaluate", "gate", "write"]
    assert list(tmp_path.iterdir()) == []
    need = json.loads(ran.stdout)["need"]
    assert 0 < need["seconds"] <= json.loads(ran.stdout)["seconds"] + 1 and need["disk"] > 1e6
    repaired = run("planted", "--out", tmp_path / "out", "--dry-run", "--repair")
    assert repaired.stdout.count("differential privacy") == 7


def test_a_release_from_the_command_line(tmp_path):
    ran = run("planted", "--out", tmp_path / "out", "--format", "csv,parquet", *QUICK)
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "out" / "parquet").is_dir() and "Private:" in ran.stdout and "report.html" in ran.stdout


def test_a_gate_that_is_not_met_ends_with_code_5_reasons_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "gate", lambda *_, **__: [GateLine("copy_excess", "exceeded", 0.02, 0.015, 0.03, 0.01)])
    ran = run("planted", "--out", tmp_path / "out", "--json", *QUICK)
    assert isinstance(ran.exception, GateError) and ran.exception.exit_code == 5
    assert "nothing was released" in str(ran.exception) and "written again" in str(ran.exception)
    assert "to do: --repair" in str(ran.exception)
    told = json.loads(ran.stdout.splitlines()[-1])
    assert not told["passed"] and told["out"] is None and told["reasons"] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "error", "why"),
    [
        (["nowhere.csv"], InputError, "no such file"),
        (["planted", "--format", "xml"], UsageError, "expected: csv, parquet, xlsx, meds"),
        (["planted", "--method", "tailwis"], UsageError, "did you mean 'tailwise'"),
        (["planted", "--set", "minute=3"], UsageError, "did you mean"),
        (["nonesuch", "."], UsageError, "no source"),
    ],
)
def test_what_is_wrong_is_refused_at_once(words, error, why, tmp_path):
    ran = run(*words, "--out", tmp_path / "out")
    assert isinstance(ran.exception, error) and why in str(ran.exception), ran.output
    assert not (tmp_path / "out").exists()


def test_a_table_that_import_refuses_is_refused_the_same_way(tmp_path):
    table = tmp_path / "visits.csv"
    table.write_text("who,when,what\n1,2020-01-01,I10\n")
    here = run(table, "--out", tmp_path / "out").exception
    there = CliRunner().invoke(app, ["import", "table", str(table), "--out", str(tmp_path / "cohort")]).exception
    assert isinstance(here, InputError) and str(here) == str(there)


def test_a_dry_run_of_a_table_says_what_its_head_is_taken_for_and_shows_no_cell(tmp_path):
    table = write_hospital_table(tmp_path / "visits.csv", 40)
    ran = run(table, "--out", tmp_path / "out", "--dry-run")
    assert ran.exit_code == 0, ran.output
    assert "patient_id: text → patient" in ran.stdout and "code: text → codes (dx)" in ran.stdout
    assert "40 patients" in ran.stdout and "then the release" in ran.stdout
    assert "MRN7" not in ran.output and "1931-" not in ran.output
    assert list(tmp_path.iterdir()) == [table]
