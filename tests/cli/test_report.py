from __future__ import annotations

import json

from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.errors import ExistsError, InputError, UsageError


def test_finished_runs_become_one_page_and_nothing_is_overwritten_unasked(finished_run, tmp_path):
    out = tmp_path / "page"
    ran = CliRunner().invoke(app, ["report", str(finished_run), "--out", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout.splitlines()[-1]) == {"report": str(out / "report.html"), "experiments": ["tiny"]}
    assert "A tiny experiment" in (out / "report.html").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, ["report", str(finished_run), "--out", str(out)])
    assert isinstance(again.exception, ExistsError)


def test_a_folder_without_a_run_is_named(tmp_path):
    ran = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "x")])
    assert isinstance(ran.exception, InputError) and "adapcla run" in str(ran.exception)


def test_files_beside_a_page_are_never_overwritten_unasked(finished_run, tmp_path):
    """Tables and figures lie in the folder of the page; a page named as a file would put them among other files."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "utility.csv").write_text("mine")
    for out in (tmp_path, tmp_path / "page.html"):
        ran = CliRunner().invoke(app, ["report", str(finished_run), "--out", str(out)])
        assert isinstance(ran.exception, ExistsError | UsageError)
    assert (tmp_path / "tables" / "utility.csv").read_text() == "mine"
