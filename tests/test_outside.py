"""Outside evaluators: a stand-in is asked in an environment of its own, and what fails is one line without a cell."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.errors import InputError, UsageError
from adapcla.files import read_json
from adapcla.io import writers

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "outside"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
COUNTS = """
def version(folder):
    return "7.0"

def results(folder):
    return {"patients": sum(1 for line in open(folder / "subject.csv")) - 1, "valid": True}
"""


def module_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"outside_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


outside = module_of("run")


class ThisPython:
    """Environments that are this interpreter."""

    def interpreter(self, evaluator: Any) -> Path:
        return Path(sys.executable)


def stand_in(tmp_path: Path, script: str, **changes: object) -> Any:
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    return replace(outside.EVALUATORS["sdmetrics"], name="counter", script=str(path), **{"seconds": 60, **changes})


@pytest.fixture
def cohorts() -> tuple[Cohort, Cohort, Cohort]:
    """Synthetic, training and test patients."""
    whole = Cohort.of([[["A", "B"], ["A"]], [["C"]], [["B"], ["C"]]] * 30)
    train, _, test = whole.split(seed=4)
    return Cohort.of([[["A"], ["B"]]] * 40), train, test


# ---- the table ----------------------------------------------------------------------------------------------
def test_every_row_has_its_script_and_every_script_its_row() -> None:
    rows = outside.EVALUATORS.values()
    assert all(row.requirements and row.seconds > 0 and row.summary.endswith(".") for row in rows)
    known = {row.script for row in rows} | {"run.py", "ask.py", "given.py"}
    assert {path.name for path in FOLDER.glob("*.py")} == known
    assert outside.EVALUATORS["pyhealth"].folder == outside.EVALUATORS["pyhealth-omop"].folder
    with pytest.raises(UsageError, match="mirror"):
        outside.evaluators_of(["mirror"])


def test_scripts_import_nothing_of_this_package() -> None:
    for path in FOLDER.glob("*.py"):
        assert path.name == "run.py" or "adapcla" not in path.read_text(encoding="utf-8"), path.name


# ---- environments -------------------------------------------------------------------------------------------
def test_an_environment_is_made_once_and_a_failed_one_is_not_ready(tmp_path: Path, monkeypatch: Any) -> None:
    bare = replace(outside.EVALUATORS["sdmetrics"], name="bare", requirements=(), python=HERE)
    python = outside.Environments(tmp_path).interpreter(bare)
    assert python == tmp_path / bare.folder / "venv" / "bin" / "python" and python.exists()

    def fail(*_: object) -> None:
        raise outside.CannotInstall("could not be installed: no wheel")

    monkeypatch.setattr(outside, "_run", fail)
    assert outside.Environments(tmp_path).interpreter(bare) == python
    with pytest.raises(outside.CannotInstall, match="no wheel"):
        outside.Environments(tmp_path).interpreter(replace(bare, requirements=("nothing==1",)))
    assert not (tmp_path / f"nothing==1-py{HERE}" / outside.READY).exists()
    with pytest.raises(outside.CannotInstall, match=r"needs Python 2\.3"):
        outside.python_of("2.3")


# ---- what they are given ------------------------------------------------------------------------------------
def test_flat_columns_by_hand(tmp_path: Path) -> None:
    sex = {"sex": Attribute(np.array([0, -1], dtype=np.int16), ("F", "M"))}
    cohort = Cohort.of([[["A", "B"], ["A"]], [["C"]]], days=np.array([0, 9, 0], dtype=np.int32), attributes=sex)
    columns = outside.flat(cohort, ["A", "Z"], ["sex"], days=True)
    assert (columns["visits"], columns["days"], columns["sex"]) == ([2, 1], [9, 0], ["F", "unknown"])
    assert (columns["code_A"], columns["code_Z"]) == (["yes", "no"], ["no", "no"])
    outside.Trial(cohort, cohort, cohort.subset([0])).write(tmp_path, "table")
    kinds = read_json(tmp_path / "columns.json")
    assert kinds["visits"] == "number" and kinds["sex"] == kinds["code_A"] == "category"


def test_a_release_is_read_by_one_of_its_formats(tmp_path: Path, cohorts: tuple[Cohort, ...]) -> None:
    writers.write(cohorts[0], tmp_path / "csv", "csv")
    assert outside.subject_in(tmp_path).n_patients == cohorts[0].n_patients
    with pytest.raises(InputError, match="neither a cohort nor a release"):
        outside.subject_in(tmp_path / "csv")


def test_test_patients_that_were_trained_on_are_refused(cohorts: tuple[Cohort, ...]) -> None:
    synthetic, train, _ = cohorts
    with pytest.raises(InputError, match="took part in training"):
        outside.Panel.of(synthetic, train, train)


# ---- asking -------------------------------------------------------------------------------------------------
def test_a_stand_in_answers_about_as_many_synthetic_and_real_patients(
    cohorts: tuple[Cohort, ...], tmp_path: Path
) -> None:
    panel = outside.Panel.of(*cohorts)
    n = panel.real.subject.n_patients
    said = outside.results_of(stand_in(tmp_path, COUNTS), panel, ThisPython(), tmp_path)
    assert said == [
        outside.Result("counter", "7.0", "patients", n, n),
        outside.Result("counter", "7.0", "valid", True, True),
    ]


@pytest.mark.parametrize(
    ("script", "seconds", "reason"),
    [
        ("def results(folder):\n    raise ValueError('secret cell')", 60, "failed (ValueError); see logs/counter-"),
        ("import time\ndef results(folder):\n    time.sleep(60)", 1, "gave no answer in 1 s"),
    ],
)
def test_what_fails_is_one_line_without_a_cell(
    cohorts: tuple[Cohort, ...], tmp_path: Path, script: str, seconds: int, reason: str
) -> None:
    evaluator = stand_in(tmp_path, script, seconds=seconds)
    (said,) = outside.results_of(evaluator, outside.Panel.of(*cohorts), ThisPython(), tmp_path)
    assert said.synthetic is None and reason in said.reason and "secret" not in said.reason


def test_a_folder_of_results_and_the_exit_code(
    cohorts: tuple[Cohort, ...], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    bare = stand_in(tmp_path, COUNTS, requirements=(), python=HERE)
    monkeypatch.setattr(outside, "evaluators_of", lambda _: [bare])
    monkeypatch.setattr(outside, "ours", lambda *_: [outside.Result("adapcla", "1", "auc", 0.6, 0.5)])
    for name, cohort in zip(("made", "train", "test"), cohorts, strict=True):
        cohort.save(tmp_path / name)
    words = [str(tmp_path / "made"), *(f"--{name}={tmp_path / name}" for name in ("train", "test", "out"))]
    words.append(f"--environments={tmp_path / 'environments'}")
    assert outside.main(words) == 0
    assert "| counter | 7.0 | valid | True | True |" in capsys.readouterr().out
    content = read_json(tmp_path / "out" / outside.RESULTS)
    assert [line["evaluator"] for line in content["results"]] == ["adapcla", "counter", "counter"]
    assert outside.main(words) == 4, "what is there is not replaced unasked"


# ---- their scripts, with stand-ins for what is installed where they run ---------------------------------------
@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Load a script with stand-ins for the modules that it imports, by dotted name."""

    def load(name: str, modules: dict[str, Any]) -> ModuleType:
        given = module_of("given")
        monkeypatch.setattr(given, "tables", lambda folder: tuple(Frame(n) for n in ("subject", "train", "test")))
        monkeypatch.setitem(sys.modules, "given", given)
        for dotted, content in modules.items():
            parts = dotted.split(".")
            for end in range(1, len(parts)):
                monkeypatch.setitem(sys.modules, ".".join(parts[:end]), SimpleNamespace(__path__=[]))
            monkeypatch.setitem(sys.modules, dotted, content)
        return module_of(name)

    return load


class Frame:
    """A table of 400 rows and four columns that knows its name."""

    columns = ("visits", "codes", "sex", "code_A")

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return 400


class Report:
    def generate(self, real: Frame, synthetic: Frame, metadata: Any, verbose: bool) -> None:
        assert (real.name, synthetic.name) == ("train", "subject")
        assert metadata["columns"]["visits"] == {"sdtype": "numerical"}

    def get_score(self) -> float:
        return 0.9

    def get_properties(self) -> Any:
        return SimpleNamespace(iterrows=lambda: [(0, {"Property": "Column Shapes", "Score": 0.8})])


def test_sdmetrics_compares_training_and_synthetic_tables(script: Any, tmp_path: Path) -> None:
    kinds = {"visits": "number", "codes": "number", "sex": "category", "code_A": "category"}
    (tmp_path / "columns.json").write_text(json.dumps(kinds))
    reports = SimpleNamespace(QualityReport=Report, DiagnosticReport=Report)
    found = script("sdmetrics_reports", {"sdmetrics.reports.single_table": reports}).results(tmp_path)
    assert found == {"quality": 0.9, "column shapes": 0.8, "diagnostic": 0.9}
