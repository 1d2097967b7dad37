from __future__ import annotations

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.errors import InputError, UsageError
from adapcla.files import read_json
from adapcla.io.simulator import simulate
from adapcla.study.runner import StudyPlan

TOML = """
name = "small"
[data]
planted = { patients = 60, codes = 60 }
[fit]
methods = ["marginal"]
[evaluate]
suites = ["tail"]
"""


@pytest.fixture
def toml(tmp_path):
    (tmp_path / "small.toml").write_text(TOML)
    return tmp_path / "small.toml"


def test_the_last_line_is_the_place_of_the_page(toml, tmp_path):
    ran = CliRunner().invoke(app, ["run", str(toml), "--out", str(tmp_path / "out")])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.strip().splitlines()[-1] == str(tmp_path / "out" / "small" / "report.html")
    again = CliRunner().invoke(app, ["run", str(toml), "--out", str(tmp_path / "out"), "--json"])
    assert json.loads(again.stdout.splitlines()[-1])["experiment"] == "small"


def test_a_dry_run_shows_the_plan_and_writes_nothing(toml, tmp_path):
    ran = CliRunner().invoke(app, ["run", str(toml), "--out", str(tmp_path / "out"), "--dry-run"])
    assert ran.exit_code == 0 and not (tmp_path / "out").exists()
    # The world is planted, so that its law is judged beside the row.
    stages = ["prepare", "evaluate", "evaluate", "train", "sample", "evaluate"]
    assert [line.split()[2] for line in ran.stdout.splitlines()[: len(stages)]] == stages
    told = json.loads(CliRunner().invoke(app, ["run", str(toml), "--dry-run", "--json"]).stdout)
    assert [step["stage"] for step in told["steps"]] == stages


def test_a_wrong_key_ends_with_code_2_and_the_nearest_name(adapcla, toml):
    arguments = ["run", str(toml), "--set", "fit.metods=[]"]
    ran = adapcla(*arguments)
    assert ran.returncode == 2 and "did you mean 'fit.methods'" in ran.stderr and "Traceback" not in ran.stderr


def test_absent_data_ends_with_code_3(adapcla, tmp_path, repository, monkeypatch):
    monkeypatch.setenv("ADAPCLA_DATA", str(tmp_path))
    arguments = ["run", str(repository / "experiments" / "paper.toml"), "--out", str(tmp_path / "out")]
    ran = adapcla(*arguments)
    assert ran.returncode == 3 and "--set data.path=" in ran.stderr


def test_one_path_is_all_that_a_user_with_credentialed_tables_sets(open_data_at, repository, tmp_path):
    """The public demo tables stand in for the full ones: one method, one pass."""
    changes = [
        f"data.path={open_data_at('mimic3_demo')}",
        'fit.methods=["adapcla"]',
        "fit.seeds=[1]",
        'fit.settings={"width": 16, "layers": 1, "heads": 2, "batch_size": 16}',
        'fit.grid={"learning_rates": [1e-3], "passes": [1]}',
        'evaluate.suites=["tail"]',
        "analyse.parts=[]",
    ]
    arguments = [part for change in changes for part in ("--set", change)]
    toml = repository / "experiments" / "paper.toml"
    ran = CliRunner().invoke(app, ["run", str(toml), "--out", str(tmp_path), *arguments])
    assert ran.exit_code == 0, ran.output
    assert "adapcla (paper)" in (tmp_path / "paper" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options") / "A Cohort"
    simulate(patients=200, codes=60, seed=1).save(folder)
    return folder


def test_options_are_a_specification(cohort, tmp_path):
    words = ["run", "--cohort", str(cohort), "--methods", "marginal", "--set", f"external.theirs={cohort}"]
    words += [
        "--set",
        'evaluate.suites=["tail"]',
        "--quick",
        "--set",
        "sample.patients=100",
        "--out",
        str(tmp_path),
        "--json",
    ]
    ran = CliRunner().invoke(app, ["--quiet", *words, "--set", "fit.settings.passes=0.5"])
    assert ran.exit_code == 0, ran.output
    emitted = json.loads(ran.stdout.splitlines()[-1])
    assert emitted["experiment"] == "a-cohort" and emitted["failed"] == []
    assert set(pl.read_csv(emitted["scores"])["row"]) == {"marginal", "theirs"}
    spec = read_json(tmp_path / "a-cohort" / "study.json")["spec"]
    assert spec["data"]["path"] == str(cohort) and spec["sample"]["patients"] == 100
    assert spec["fit"]["settings"] == {"passes": 0.5} and spec["evaluate"]["suites"] == ["tail"]


def test_options_change_a_file(toml, tmp_path):
    words = [
        "run",
        str(toml),
        "--methods",
        "marginal,lstm",
        "--seeds",
        "1,2",
        "--set",
        "split.control=0.1",
        "--dry-run",
    ]
    told = json.loads(CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--json"]).stdout)
    assert sum(step["stage"] == "train" for step in told["steps"]) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "nonesuch"], "no method"),
        (["--seeds", "one"], "expected"),
        (["--seeds", ","], "expected"),
        (["--set", 'evaluate.suites=["beauty"]'], "beauty"),
        (["--set", "split.control=2"], "less than"),
        (["--set", 'analyse.parts=["tea-leaves"]'], "analyse.parts"),
        (["--set", "external.theirs=nowhere"], "nowhere"),
    ],
)
def test_wrong_words_are_refused_before_any_work(words, message, cohort, tmp_path):
    ran = CliRunner().invoke(app, ["run", "--cohort", str(cohort), "--out", str(tmp_path / "out"), *words])
    assert isinstance(ran.exception, UsageError | InputError)
    assert message in str(ran.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["demo"], [], ["experiments/demo.toml"]])
def test_the_demonstration_is_run_by_name_by_file_and_without_either(tmp_path, monkeypatch, repository, words):
    """Training it takes minutes, so that only what would be run is looked at."""
    asked = []
    monkeypatch.chdir(repository)
    monkeypatch.setattr(StudyPlan, "run", lambda self: asked.append(self.spec) or self.report)
    ran = CliRunner().invoke(app, ["run", *words, "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.strip() == str(tmp_path / "demo" / "report.html")
    assert asked[0].fit.methods == ("adapcla", "adapcla-no-scaffold", "tailwise") and not asked[0].real
