"""`adapcla compare`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapcla.cli import app
from adapcla.errors import UsageError
from adapcla.sources import planted

TINY = ["--passes", "0.5", "--set", "width=16", "--set", "layers=1", "--set", "heads=2", "--suites", "tail", "--quick"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare") / "cohort"
    planted.simulate(patients=200, codes=60, seed=1).save(folder)
    return folder


def run(*words: str):
    return CliRunner().invoke(app, ["--quiet", "compare", *words])


def test_one_table_comes_out(cohort: Path, tmp_path: Path):
    out = tmp_path / "out"
    outside = f"theirs={cohort}"
    result = run(str(cohort), "--out", str(out), "--methods", "lstm", "--external", outside, "--json", *TINY)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout.splitlines()[-1])["rows"]
    assert [row["method"] for row in rows] == ["real-test", "train-copy", "marginal", "lstm", "theirs"]
    assert rows[3]["parameters"] > 0 and rows[3]["seed"] == 1
    assert (out / "table.md").is_file() and (out / "table.csv").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "nonesuch"], "no method"),
        (["--seeds", "one"], "whole numbers"),
        (["--seeds", ","], "at least one"),
        (["--external", "theirs"], "NAME=PATH"),
        (["--suites", "beauty"], "beauty"),
        (["--control", "2"], "less than"),
    ],
)
def test_wrong_words_are_refused_before_any_work(words: list[str], message: str, cohort: Path, tmp_path: Path):
    result = run(str(cohort), "--out", str(tmp_path / "out"), *words)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
