"""One door: Python, the command line, a settings file, a folder and memory give the same keys and the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import ACCEPTED, ACCEPTING, write_hospital_table
from typer.testing import CliRunner

import adapcla
from adapcla.cli.main import app
from adapcla.errors import UsageError
from adapcla.io.simulator import simulate
from adapcla.pipeline.steps import RECORD
from adapcla.release.plan import ReleasePlan
from adapcla.release.synthesize import settings_of, synthesize

SETTINGS = {"evaluate.quick": True, "evaluate.suites": ("privacy",), "fit.settings.width": 16}
SMALL = {"method": "marginal", "minutes": 2, "patients": 300, "settings": {**SETTINGS}, **ACCEPTED}
TOML = """
minutes = 2
patients = 300
method = "marginal"
accept = {accept}
reason = {reason}
[data]
source = "table"
path = "{path}"
[evaluate]
quick = true
suites = ["privacy"]
[fit.settings]
width = 16
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return write_hospital_table(tmp_path_factory.mktemp("table") / "visits.csv")


@pytest.fixture(scope="module")
def toml(table) -> Path:
    lists = {"accept": json.dumps(ACCEPTED["accept"]), "reason": json.dumps(ACCEPTED["reason"])}
    path = table.with_name("release.toml")
    path.write_text(TOML.format(path=table, **lists))
    return path


def command(*words: object) -> None:
    sets = ("--set=evaluate.quick=true", '--set=evaluate.suites=["privacy"]', "--set=fit.settings.width=16")
    ran = CliRunner().invoke(app, ["synthesize", *map(str, words), *sets])
    assert ran.exit_code == 0, ran.output


def made(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def keys(work: Path) -> dict[str, str]:
    """The key of every step but the last, which knows where the release lies."""
    found = {path.parent.relative_to(work).as_posix(): json.loads(path.read_text()) for path in work.rglob(RECORD)}
    return {name: record["key"] for name, record in found.items() if name != "write"}


def test_every_door_gives_the_same_keys_and_the_same_bytes(table, toml, tmp_path):
    synthesize(table, out=tmp_path / "python", **SMALL)
    synthesize("table", table, out=tmp_path / "named", **SMALL)
    synthesize(toml, out=tmp_path / "toml")
    words = ["--method=marginal", "--minutes=2", "--patients=300", *ACCEPTING]
    command(table, f"--out={tmp_path / 'command'}", *words)
    command(toml, f"--out={tmp_path / 'both'}")
    first, of_first = made(tmp_path / "python"), keys(tmp_path / "python-work")
    assert len(first) >= 5 and len(of_first) >= 7
    for name in ("named", "toml", "command", "both"):
        assert keys(tmp_path / f"{name}-work") == of_first, name
        assert made(tmp_path / name) == first, name


def test_what_a_file_says_can_be_changed_from_outside(toml, tmp_path):
    asked = settings_of(str(toml), minutes=7, changes={"evaluate.quick": False})
    assert (asked.minutes, asked.patients, asked.evaluate.quick) == (7, 300, False)
    assert settings_of(str(toml)).split.control == 0.15
    toml_of_a_study = tmp_path / "study.toml"
    toml_of_a_study.write_text('name = "a"\n[fit]\nmethods = ["marginal"]\n')
    with pytest.raises(UsageError, match=r"fit\.methods"):
        settings_of(str(toml_of_a_study))


def test_run_refuses_the_settings_of_a_release(toml):
    ran = CliRunner().invoke(app, ["run", str(toml), "--dry-run"])
    assert isinstance(ran.exception, UsageError)


def test_a_cohort_in_memory_is_the_same_as_its_folder_and_lies_nowhere_twice(tmp_path):
    cohort = simulate(520, 60, seed=1)
    cohort.save(tmp_path / "cohort")
    synthesize(cohort, out=tmp_path / "memory", **SMALL)
    synthesize(tmp_path / "cohort", out=tmp_path / "folder", **SMALL)
    assert keys(tmp_path / "memory-work") == keys(tmp_path / "folder-work")
    assert made(tmp_path / "memory") == made(tmp_path / "folder")
    assert not (tmp_path / "memory-work" / "cohort").exists()


def times(work: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in work.rglob(RECORD)}


def test_a_second_call_does_nothing_again_and_a_copied_table_neither(table, tmp_path):
    copy = tmp_path / "elsewhere" / "visits.csv"
    copy.parent.mkdir()
    copy.write_bytes(table.read_bytes())
    found = []
    for source in (table, table, copy):
        synthesize(source, out=tmp_path / "out", **SMALL)
        found.append(times(tmp_path / "out-work"))
    assert found[0] == found[1] == found[2] and len(found[0]) == 8


def test_a_second_call_with_a_cohort_resumes(tmp_path):
    synthesize(simulate(520, 60, seed=1), out=tmp_path / "out", **SMALL)
    before = times(tmp_path / "out-work")
    assert synthesize(simulate(520, 60, seed=1), out=tmp_path / "out", **SMALL).passed
    assert times(tmp_path / "out-work") == before
    synthesize(simulate(520, 60, seed=2), out=tmp_path / "out", **SMALL)
    assert not set(times(tmp_path / "out-work").items()) & set(before.items())


def test_another_out_with_the_same_working_folder_is_written_too(tmp_path):
    for name in ("one", "two"):
        synthesize("planted", out=tmp_path / name, work=tmp_path / "work", **_planted())
    assert made(tmp_path / "one") == made(tmp_path / "two")


def _planted() -> dict[str, object]:
    world = {"data.planted.patients": 520, "data.planted.codes": 60}
    return {**SMALL, "settings": {**SETTINGS, **world}}


def test_a_release_that_was_made_is_shown_in_a_line(tmp_path):
    shown = repr(synthesize("planted", out=tmp_path / "out", **_planted()))
    assert shown.startswith("Release(released to ") and "300 synthetic patients" in shown and "\n" not in shown


def test_sizes_that_other_settings_chose_are_not_taken(tmp_path):
    """What is evaluated takes from the time for training: where it changes the sizes, the fit is made again."""
    world = {"data.planted.patients": 4000, "data.planted.codes": 400}

    def plan(**more: object) -> ReleasePlan:
        return ReleasePlan(settings_of("planted", minutes=2, changes={**world, **more}), tmp_path / "out")

    first, fewer = plan(), plan(**{"evaluate.suites": ("privacy",)})
    chosen = [one.effort(one.attempts[0]).settings for one in (first, fewer)]
    assert chosen[0] != chosen[1]
    fits = [next(step.key for step in one.steps if step.stage == "train") for one in (first, fewer)]
    assert fits[0] != fits[1]


def test_the_package_exports_this_door():
    assert adapcla.synthesize is synthesize
