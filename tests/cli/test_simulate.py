"""`adapcla simulate` as a user meets it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.errors import AdapclaError
from adapcla.io import simulator as planted


def run(*arguments: str):
    return CliRunner().invoke(app, ["simulate", *arguments])


def test_a_cohort_folder_that_opens_to_the_patients_of_the_library(tmp_path):
    out = tmp_path / "world"
    done = run("--out", str(out), "--patients", "80", "--codes", "60", "--seed", "3", "--population", "deep", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    cohort = Cohort.open(out)
    assert cohort.fingerprint == planted.simulate(80, 60, seed=3, population="deep").fingerprint
    assert (told["patients"], told["visits"], told["codes"]) == (80, cohort.n_visits, 60)


def test_without_json_nothing_is_on_stdout(tmp_path):
    done = run("--out", str(tmp_path / "world"), "--patients", "20", "--codes", "60")
    assert done.stdout == ""
    assert "20 simulated patients" in done.stderr


def test_the_law_seed_reaches_the_world(tmp_path):
    run("--out", str(tmp_path / "w"), "--patients", "20", "--codes", "60", "--set", "law_seed=8")
    assert Cohort.open(tmp_path / "w").card["arguments"]["law_seed"] == 8


def test_a_populated_folder_is_refused_before_anything_is_drawn(tmp_path, monkeypatch):
    (tmp_path / "precious.txt").write_text("kept")
    monkeypatch.setattr(planted, "simulate", lambda *_, **__: pytest.fail("drawn in vain"))
    done = run("--out", str(tmp_path), "--patients", "20", "--codes", "60")
    assert isinstance(done.exception, AdapclaError)
    assert done.exception.exit_code == 4
    assert (tmp_path / "precious.txt").read_text() == "kept"


def test_overwrite_replaces_it(tmp_path):
    out = tmp_path / "world"
    for patients in ("20", "30"):
        assert run("--out", str(out), "--patients", patients, "--codes", "60", "--overwrite").exit_code == 0
    assert Cohort.open(out).n_patients == 30


@pytest.mark.parametrize(
    "wrong", ["--population elsewhere", "--codes 3", "--patients 0", "--patients many", "--set tripwires=1"]
)
def test_wrong_settings_end_with_exit_code_two_and_no_folder(tmp_path, wrong):
    done = run("--out", str(tmp_path / "world"), "--patients", "20", "--codes", "60", *wrong.split())
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
    assert not (tmp_path / "world").exists()
