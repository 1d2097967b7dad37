"""A folder of the studio with everything that pages show, made once, and pages run without a browser."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import write_hospital_table

from adapcla.data import Cohort
from adapcla.files import write_json
from adapcla.generation import generator_for
from adapcla.io import read, simulator
from adapcla.io.writers import write
from adapcla.tables import Cell, Line, Table
from adapcla.training.checkpoint import Journal

pytest.importorskip("streamlit", reason="the studio is an extra: pip install 'adapcla[ui]'")


@pytest.fixture(autouse=True)
def own_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main module is the same after a test: Streamlit puts pages in its place, and new processes would run them."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the verbs leave it, with little in it; not to be changed."""
    root = tmp_path_factory.mktemp("stocked")
    world = simulator.simulate(300, 60, seed=1)
    world.save(root / "cohorts" / "world")
    train, valid, _ = world.split(seed=4)
    settings = {"width": 16, "layers": 1, "heads": 2, "passes": 0.5, "batch_size": 64}
    model = generator_for("adapcla", **settings).fit(train, valid)
    model.save(root / "runs" / "one" / "model")
    sample = model.sample(40, seed=1)
    sample.save(root / "samples" / "first")
    _experiment(root / "runs" / "tiny")
    _release(root, sample)
    return root


def _experiment(study: Path) -> None:
    """An experiment of two rows, with a table and a figure as its page has them."""
    rows = ["adapcla", "adapcla-no-scaffold"]
    (study / "figures").mkdir(parents=True)
    write_json(study / "study.json", {"fits": [{"row": row} for row in rows]})
    lines = [Line((Cell(row), Cell("0.5", 0.5, "0.4 to 0.6"))) for row in rows]
    beside = Line((Cell("real test"), Cell("0.9", 0.9, "")), "reference")
    Table(("method", "unigram R²"), (*lines, beside), "fidelity", "Fidelity").save(study / "tables")
    (study / "figures" / "frequency.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (study / "figures" / "frequency.md").write_text("**Frequencies.** How often.")


def _release(root: Path, sample: Cohort) -> None:
    """A release of a hospital's table, and the working folder with real patients beside it."""
    (root / "uploads").mkdir()
    real = read("table", write_hospital_table(root / "uploads" / "hospital.csv", 60), system="PLANTED")
    out, work = root / "releases" / "hospital", root / "releases" / "hospital-work"
    for name in ("csv", "meds", "fhir"):
        write(sample, out / name, name)
    for name in ("README.md", "croissant.json", "report.html"):
        (out / name).write_text("x")
    real.save(work / "data" / "train")
    for part in ("train", "test"):
        real.save(work / "tries" / "1" / "patients" / part)
    sample.save(work / "tries" / "1" / "sample")
    shutil.copytree(root / "runs" / "one" / "model", work / "tries" / "1" / "fit" / "model")
    journal = Journal(work / "tries" / "1" / "fit" / "journal.jsonl")
    for step in (1, 2, 3):
        journal.write(kind="step", step=step, loss=4.0 - step)
    (work / "report.html").write_text("x")


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
        imports = f"from adapcla.studio import widgets\nfrom adapcla.studio.screens import {name}\n"
        return AppTest.from_string(f"{imports}widgets.run_guarded({name}.{name}_screen)", default_timeout=60).run()

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
