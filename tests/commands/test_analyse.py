"""`adapcla analyse` from the command line, on a world of seconds."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from adapcla.commands import analyse
from adapcla.errors import UsageError
from adapcla.generators import generator_for
from adapcla.generators.runs import train_run
from adapcla.records import Cohort
from adapcla.sources import planted

app = typer.Typer()
analyse.register(app)
SMALL = ["width=16", "layers=1", "heads=2", "passes=1", "batch_size=64", "validations=2"]
SETTINGS = [word for item in SMALL for word in ("--set", item)]


@app.callback()
def _verbs() -> None:
    """More than one verb, so that the name is needed as in the real command line."""


def call(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["analyse", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.simulate(patients=900, codes=150, seed=1).save(tmp_path_factory.mktemp("world") / "cohort")


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = Cohort.open(world).split(seed=4)
    folder = tmp_path_factory.mktemp("runs") / "adapcla"
    train_run(
        generator_for("adapcla", width=16, layers=1, heads=2, passes=1, batch_size=64), parts.train, parts.valid, folder
    )
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are composed but not rendered: one test renders them, and that is enough."""

    def empty(_: object, stem: Path) -> None:
        for ending in ("svg", "png"):
            path = Path(f"{stem}.{ending}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    monkeypatch.setattr("adapcla.report.folder.save_both", empty)


def test_probes_then_the_same_again_from_what_was_saved(world, tmp_path):
    told = json.loads(call("probes", world, "--out", tmp_path / "a", "--contexts", "4,8", "--json", *SETTINGS))
    assert told["contexts"] >= 1
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {
        "probe_summary.csv",
        "probe_separation.json",
        "probe_curves.csv",
        "endpoint.csv",
        "probe_dynamics.svg",
    } <= names
    call("probes", "--from", tmp_path / "a" / "trajectory", "--out", tmp_path / "b", "--contexts", "4,8")
    first, again = (pl.read_csv(tmp_path / side / "probe_summary.csv") for side in ("a", "b"))
    assert first.equals(again)


@pytest.mark.usefixtures("undrawn")
def test_kernel(world, tmp_path):
    call("kernel", world, "--out", tmp_path / "k", "--contexts", "3,6", *SETTINGS)
    table = pl.read_csv(tmp_path / "k" / "kernel_correlations.csv")
    assert set(table["contexts"]) == {3, 6} and set(table["group"]) == {"all", "shared"}
    assert "context" not in pl.read_csv(tmp_path / "k" / "kernel_similarity.csv").columns


@pytest.mark.usefixtures("undrawn")
def test_schedules(world, tmp_path):
    names = "fast;slow;none"
    call("schedules", world, "--out", tmp_path / "s", "--schedules", names, "--contexts", "5", *SETTINGS)
    assert set(pl.read_csv(tmp_path / "s" / "schedules.csv")["schedule"]) == {"fast", "slow", "none"}
    assert {"schedules.png", "schedules_endpoint.png"} <= {path.name for path in (tmp_path / "s").iterdir()}


@pytest.mark.usefixtures("undrawn")
def test_bound(tmp_path):
    told = json.loads(
        call("bound", "--out", tmp_path / "b", "--codes", "6", "--world", "120", "--horizons", "20", "--json")
    )
    assert told["bound crossed"] == 0
    assert told["prior-shift identity off by"] < 1e-9
    assert told["scaffold off centre by"] < 1e-9


@pytest.mark.usefixtures("undrawn")
def test_cases_of_a_made_up_world_may_show_patients(world, run, tmp_path):
    token = Cohort.open(world).vocabulary.tokens[3]
    call("cases", world, run, "--out", tmp_path / "c", "--patients", "60", "--code", token)
    names = {path.relative_to(tmp_path / "c").as_posix() for path in (tmp_path / "c").rglob("*")}
    assert {"next_visit.csv", "neighbours.csv", "examples/examples.md", "next_visit_calibration.png"} <= names
    assert f"code-{token.replace('/', '-')}.md" in names
    assert {"adapcla", "truth", "last visit again"} == set(pl.read_csv(tmp_path / "c" / "next_visit.csv")["method"])


@pytest.mark.usefixtures("undrawn")
def test_cases_of_other_data_show_nobody(world, run, tmp_path):
    from dataclasses import replace

    other = replace(Cohort.open(world), card={"source": "table"})
    folder = other.save(tmp_path / "cohort")
    call("cases", folder, run, "--out", tmp_path / "none", "--patients", "60")
    assert not list((tmp_path / "none").rglob("*example*"))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("probes", "--out", "x"), "either a cohort folder"),
        (("probes", "WORLD", "--out", "x", "--contexts", "many"), "--contexts many"),
        (("schedules", "WORLD", "--out", "x", "--seeds", "0"), "--seeds 0"),
        (("schedules", "WORLD", "--out", "x", "--schedules", "sometimes"), "schedule 'sometimes'"),
        (("probes", "WORLD", "--out", "x", "--method", "tailwise"), "no one-shot logit"),
    ],
)
def test_wrong_usage_is_named(world, tmp_path, arguments, match):
    real = [world if word == "WORLD" else tmp_path / "x" if word == "x" else word for word in arguments]
    with pytest.raises(UsageError, match=match):
        call(*real)
