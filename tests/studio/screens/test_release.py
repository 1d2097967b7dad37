"""The page Train and release: choices become options, and a finished release shows statuses, page and downloads."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.conftest import press, put, text_of

from adapcla.report.html import Status
from adapcla.studio.screens.release import zip_of
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]
STATUS = {**Status("a", "Safe", "met", "8 of 8", "limits kept", "No leak.")._asdict(), "tone": "green"}


def test_defaults_need_few_words_and_choices_become_options(shown: Shown, started: list[list[str]]) -> None:
    page = shown("release")
    press(page, "Train and release")
    usual = {"--out=releases/world", "--json"}
    assert started[-1][:3] == ["synthesize", "cohort", "cohorts/world"] and set(started[-1][3:]) == usual
    page.number_input(key="minutes").set_value(2.0)
    page.multiselect(key="formats").set_value(["meds", "csv"])
    page.checkbox(key="release-repair").check()
    page.number_input(key="release-min_patients").set_value(20)
    page.text_area(key="settings").set_value("fit.settings.width=16\n\nevaluate.quick=true")
    press(page, "Show the plan with rough times")
    line = started[-1]
    assert {"--minutes=2.0", "--format=meds,csv", "--repair", "--min-patients=20", "--dry-run"} <= set(line)
    assert {"--set=fit.settings.width=16", "--set=evaluate.quick=true"} <= set(line) and "--set=" not in line
    # The first release has promised its name.
    assert "--out=releases/world-2" in line


def test_a_release_shows_its_statuses_its_curve_and_its_files(shown: Shown, folder: Path) -> None:
    about = {"kind": "release", "out": "releases/hospital"}
    put(Workspace(folder).jobs, ["synthesize"], "Release", about, folder, result={"status": {"safe": STATUS}})
    page = shown("release")
    said = text_of(page)
    assert "8 of 8" in said and "Loss of training" in said and "hospital-work holds real patients" in said
    page.toggle[0].set_value(True).run()
    assert page.get("iframe")[0].proto.src.startswith("data:text/html") and not page.exception
    labels = [each.proto.label for each in page.get("download_button")]
    assert {"csv (zip)", "meds (zip)", "fhir (zip)", "README.md", "croissant.json", "report.html"} <= set(labels)


def test_a_gate_that_is_not_met_shows_its_reasons(shown: Shown, folder: Path) -> None:
    about = {"kind": "release", "out": "releases/refused"}
    said = "adapcla: the privacy gate is not met: nothing was released\n- attack\nto do: --repair\n"
    result = {"status": {"safe": {**STATUS, "outcome": "exceeded"}}, "reasons": ["an attack succeeds"]}
    put(Workspace(folder).jobs, ["synthesize"], "Release", about, folder, code=5, said=said, result=result)
    text = text_of(shown("release"))
    assert "gate is not met" in text and "to do: --repair" in text and "an attack succeeds" in text


def test_a_plan_shows_its_steps(shown: Shown, folder: Path) -> None:
    steps = [{"stage": "train", "what": "x", "done": False, "seconds": 90}]
    put(Workspace(folder).jobs, ["synthesize"], "Plan", {"kind": "plan"}, folder, result={"steps": steps})
    assert "2 min" in text_of(shown("release"))


def test_a_folder_is_pack_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "csv" / "deep").mkdir(parents=True)
    (tmp_path / "csv" / "a.csv").write_text("x")
    (tmp_path / "csv" / "deep" / "b.csv").write_text("y")
    content = zip_of(tmp_path / "csv")
    assert zip_of(tmp_path / "csv") == content and zip_of(tmp_path / "csv" / "a.csv") == b"x"
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["csv/a.csv", "csv/deep/b.csv"]
