from __future__ import annotations

import json

from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.errors import ExistsError, InputError


def test_finished_runs_become_one_page_and_nothing_is_overwritten_unasked(finished_run, tmp_path):
    out = tmp_path / "page.html"
    ran = CliRunner().invoke(app, ["report", str(finished_run), "--out", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout.splitlines()[-1]) == {"report": str(out), "experiments": ["tiny"]}
    assert "A tiny experiment" in out.read_text(encoding="utf-8")
    again = CliRunner().invoke(app, ["report", str(finished_run), "--out", str(out)])
    assert isinstance(again.exception, ExistsError)


def test_a_folder_without_a_run_is_named(tmp_path):
    ran = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "x.html")])
    assert isinstance(ran.exception, InputError) and "adapcla run" in str(ran.exception)
