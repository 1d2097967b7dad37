from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.data.prevalence import read_prevalence
from adapcla.errors import ExistsError, UsageError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["export", "--to", "prevalence", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    """Code A in 12 of 20 visits, B in 11, C in 10."""
    visits = [[["Z"] + ["A"] * (i < 12) + ["B"] * (i < 11) + ["C"] * (i < 10)] for i in range(20)]
    visits[0] = [["A", "B", "C"]]
    return Cohort.of(visits).save(tmp_path / "cohort")


def test_small_cells_are_left_out(cohort: Path, tmp_path: Path) -> None:
    result = json.loads(run(str(cohort), "--out", str(tmp_path / "p.csv"), "--json"))
    assert (result["codes"], result["left_out"]) == (3, 1)
    assert read_prevalence(tmp_path / "p.csv").vocabulary.tokens == ("A", "B", "Z")
    assert b"C," not in (tmp_path / "p.csv").read_bytes()


def test_the_cell_size_is_an_option(cohort: Path, tmp_path: Path) -> None:
    assert "4 codes; 0 left out" in run(str(cohort), "--out", str(tmp_path / "p.csv"), "--min-cell", "5")


def test_a_file_is_not_replaced_unasked(cohort: Path, tmp_path: Path) -> None:
    run(str(cohort), "--out", str(tmp_path / "p.csv"))
    with pytest.raises(ExistsError):
        run(str(cohort), "--out", str(tmp_path / "p.csv"))
    run(str(cohort), "--out", str(tmp_path / "p.csv"), "--overwrite")


def test_the_former_verb_writes_the_same(cohort: Path, tmp_path: Path) -> None:
    run(str(cohort), "--out", str(tmp_path / "new.csv"), "--min-cell", "5")
    former = ["prior", "export", str(cohort), "--out", str(tmp_path / "old.csv"), "--min-cell", "5"]
    assert CliRunner().invoke(app, former).exit_code == 0
    assert (tmp_path / "new.csv").read_bytes() == (tmp_path / "old.csv").read_bytes()
    assert isinstance(CliRunner().invoke(app, ["prior", "import", *former[2:]]).exception, UsageError)
