"""A folder of the studio with everything that pages show, made once, and pages run without a browser."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapcla.generators import generator_for
from adapcla.sources import planted

pytest.importorskip("streamlit", reason="the studio is an extra: pip install 'adapcla[ui]'")


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory, finished_run: Path, finished_release: Any) -> Path:
    """A folder with a cohort, a trained run, a sample, an experiment and a release; not to be changed."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = base / "stocked-studio"
    with (base / "stocked-studio.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists():
            return root
        unfinished = base / "unfinished-studio"
        world = planted.simulate(300, 60, seed=1, tripwires=5)
        world.save(unfinished / "cohorts" / "world")
        train, valid, _ = world.split(seed=4)
        settings = {"width": 16, "layers": 1, "heads": 2, "passes": 0.5, "batch_size": 64}
        model = generator_for("adapcla", **settings).fit(train, valid)
        model.save(unfinished / "runs" / "one" / "model")
        model.sample(40, seed=1).save(unfinished / "samples" / "first")
        shutil.copytree(finished_run, unfinished / "runs" / "tiny")
        work = finished_release.folder.root
        shutil.copytree(finished_release.out, unfinished / "releases" / "hospital")
        shutil.copytree(work, unfinished / "releases" / "hospital-work")
        unfinished.rename(root)
        return root


@pytest.fixture
def folder(stocked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stocked folder, where the pages work."""
    from adapcla.studio.server import FOLDER

    root = tmp_path / "studio"
    shutil.copytree(stocked, root)
    monkeypatch.setenv(FOLDER, str(root))
    return root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that pages start; none of them is carried out."""
    from adapcla.studio import jobs

    seen: list[list[str]] = []

    def start(folder: Path, command: Any, title: str, about: Any, where: Path) -> jobs.Job:
        seen.append(list(command))
        return put(folder, list(command), title, dict(about), where)

    monkeypatch.setattr(jobs, "start", start)
    return seen


def put(jobs_folder: Path, command: list[str], title: str, about: dict[str, str], where: Path, **came: Any) -> Any:
    """A job that has ended: its exit code, what it printed and what it said."""
    import json
    import secrets
    import time

    from adapcla.files import write_json
    from adapcla.studio import jobs

    folder = jobs_folder / f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    content = {"command": command, "title": title, "about": about, "started": time.time(), "where": str(where)}
    write_json(folder / jobs.JOB, content)
    write_json(folder / jobs.EXIT, {"code": came.get("code", 0), "ended": time.time() + 1})
    (folder / jobs.OUT).write_text(json.dumps(came.get("result", {})))
    (folder / jobs.ERR).write_text(came.get("said", ""))
    time.sleep(0.002)
    job = jobs.job_at(folder)
    assert job is not None
    return job


@pytest.fixture
def shown(folder: Path) -> Callable[..., Any]:
    """A function from the name of a page to that page as Streamlit's own harness runs it."""
    from streamlit.testing.v1 import AppTest

    def page(name: str) -> Any:
        script = (
            f"from adapcla.studio import pieces\nfrom adapcla.studio.screens import {name}\npieces.guarded({name}.page)"
        )
        return AppTest.from_string(script, default_timeout=60).run()

    return page


def text_of(page: Any) -> str:
    """Everything that a page says, markup included."""
    kinds = ("markdown", "caption", "header", "subheader", "title", "code", "html", "text")
    found = [str(each.value) for kind in kinds for each in page.get(kind) if hasattr(each, "value")]
    raw = [str(each.proto) for each in page.get("html")]
    labels = [str(each.label) for kind in ("button", "selectbox", "multiselect", "radio") for each in page.get(kind)]
    return "\n".join([*found, *raw, *labels])


def press(page: Any, label: str) -> Any:
    """The page after a button was pressed."""
    return next(button for button in page.button if button.label == label).click().run()
