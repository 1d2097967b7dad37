"""The commands of the README, in the order printed, on a cohort whose test and control patients are marked.

Each test patient holds a code that nobody else has, and so does each control patient. Wherever such a code has a count
in training, somebody was trained on who must not be.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import ACCEPTING, write_hospital_table
from tests.io.fixtures import mimic4, write_csv

from adapcla import load
from adapcla.cli.main import main
from adapcla.data import Code, Cohort
from adapcla.data.provenance import SEPARATED
from adapcla.data.split import split_positions
from adapcla.evaluation import Scores

MARKS = ("MARK/CONTROL", "MARK/TEST")
_TINY = "--set width=16 --set layers=1 --set heads=2 --epochs 2"
#: What makes a command small, by how it begins; the last value of an option counts.
SMALLER = {
    "simulate": "--patients 400 --codes 60",
    "train": _TINY,
    "sample": "--patients 150",
    "synthesize": '--method marginal --set evaluate.quick=true --set \'evaluate.suites=["tail","privacy"]\' '
    + shlex.join(ACCEPTING),
    "evaluate": "--quick",
    "run": """
        --set data.source=cohort --set data.path={here}/cohort --set split.control=0.1 --set targets={{}}
        --set 'fit.methods=["adapcla"]' --set 'evaluate.suites=["tail"]' --set analyse.parts=[]
        --set 'fit.settings={{"width": 16, "layers": 1, "heads": 2, "passes": 1}}'
    """,
}


def commands(readme: Path) -> list[list[str]]:
    """The command lines of the README, as a shell would split them."""
    lines = readme.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    adapcla ")]


def exit_code(monkeypatch: pytest.MonkeyPatch, words: list[str], here: Path) -> int:
    """How a command ends, made small."""
    more = SMALLER.get(words[0], "").format(here=here)
    monkeypatch.setattr(sys, "argv", ["adapcla", "--quiet", *words, *shlex.split(more)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def mark(folder: Path, control: float) -> None:
    """Give each test and each control patient of a cohort the code of their part, in their first visit."""
    whole = Cohort.open(folder)
    positions = split_positions(whole.n_patients, control=control)
    patients = list(whole.patients())
    for code, chosen in zip(MARKS, (positions.control, positions.test), strict=True):
        for patient in chosen.tolist():
            patients[patient][0].append(code)
    vocabulary = [*whole.vocabulary.codes, *(Code.of(token) for token in MARKS)]
    kept = {"days": np.array(whole.days), "attributes": whole.attributes, "card": whole.card}
    Cohort.of(patients, vocabulary, **kept).save(folder, overwrite=True)


def patients_with_marks(cohort: Cohort) -> list[int]:
    """How many patients hold each mark."""
    return [int(n) for n in cohort.patient_counts[cohort.vocabulary.positions(MARKS)]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Path:
    """An empty folder to work in, with the experiments of the repository and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(repository / "experiments", tmp_path / "experiments", ignore=shutil.ignore_patterns("*.py"))
    return tmp_path


def test_nobody_who_is_kept_out_is_trained_on(here: Path, repository: Path, monkeypatch: pytest.MonkeyPatch):
    chain = [words for words in commands(repository / "README.md") if words[0] not in ("import", "synthesize")]
    assert [words[0] for words in chain][:6] == ["simulate", "describe", "split", "train", "sample", "evaluate"]
    control = float(chain[2][chain[2].index("--control") + 1])
    for number, words in enumerate(chain):
        code = exit_code(monkeypatch, words, here)
        # So few patients and passes say nothing about privacy: the gate may open or not, but it has judged.
        assert code in ((0, 5) if "--gate" in words else (0,)), words
        if number == 0:
            mark(here / "cohort", control)

    parts_of = {name: Cohort.open(here / "parts" / name) for name in ("train", "valid", "test", "control")}
    n_control, n_test = (parts_of[name].n_patients for name in ("control", "test"))
    marked = {name: patients_with_marks(part) for name, part in parts_of.items()}
    assert marked == {"train": [0, 0], "valid": [0, 0], "control": [n_control, 0], "test": [0, n_test]}
    assert min(n_control, n_test) > 30

    model = load(here / "run").model
    assert model.prevalence.share[model.vocabulary.positions(MARKS)].tolist() == [0, 0]
    assert model.facts["training data"] == parts_of["train"].fingerprint
    for name in ("synthetic", "steered"):
        assert patients_with_marks(Cohort.open(here / name)) == [0, 0]

    scores = Scores.open(here / "scores")
    assert scores.card[SEPARATED] == "yes" and f"{SEPARATED}: yes" in (here / "scores" / "scores.md").read_text()
    assert scores.values()["pair_seen"] is not None and scores.values()["copy_excess"] is not None
    assert "SYNTHETIC" in (here / "omop" / "cdm_source.csv").read_text()

    assert patients_with_marks(Cohort.open(here / "runs" / "demo" / "data" / "train")) == [0, 0]
    page = (here / "runs" / "demo" / "report.html").read_text(encoding="utf-8")
    assert "<html" in page and "adapcla" in page
    summary = json.loads(next((here / "runs" / "demo").rglob("scores/*/summary.json")).read_text())
    assert summary[SEPARATED] == "yes"


def test_patients_of_ones_own_take_the_place_of_the_first_line(
    here: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
):
    mimic4(here / "path" / "to" / "mimic-iv")
    write_csv(here / "visits.csv", ("patient_id", "visit_id", "dx"), [("1", "1", "I10"), ("2", "2", "I10")])
    imports = [words for words in commands(repository / "README.md") if words[0] == "import"]
    assert len(imports) == 2
    for words in imports:
        shutil.rmtree(here / "cohort", ignore_errors=True)
        assert exit_code(monkeypatch, words, here) == 0
        assert Cohort.open(here / "cohort").origin.kind == "real"


def test_the_first_commands_make_a_release_or_say_what_is_missing(
    here: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A table of 560 patients becomes a folder; the handful of another hospital is too few, and that is said."""
    mimic4(here / "path" / "to" / "mimic-iv")
    write_hospital_table(here / "visits.csv")
    of_table, of_hospital = [words for words in commands(repository / "README.md") if words[0] == "synthesize"]
    assert exit_code(monkeypatch, of_table, here) == 0
    assert (here / "release" / "report.html").is_file() and (here / "release" / "csv" / "visits.csv").is_file()
    assert exit_code(monkeypatch, [*of_hospital, "--out", "other"], here) == 3
    assert "too few for a release" in capsys.readouterr().err
