"""The commands of the documents: every fenced block of `bash` is run in the order of its page, with smaller numbers."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.test_readme_commands import SMALLER as SMALLER_AS_IN_README
from tests.test_readme_commands import exit_code

from adapcla.data import Cohort

PAGES = sorted((Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
#: What makes a command small, by its verb; the last value of an option counts.
SMALLER = {
    **{verb: SMALLER_AS_IN_README[verb] for verb in ("train", "sample", "evaluate", "synthesize")},
    # Fewer than 500 patients are too few for a release.
    "simulate": "--patients 520 --codes 60",
    "run": """
        --set 'data.planted={{"patients": 260, "codes": 60, "seed": 1}}' --set sample.patients=100 --set fit.seeds=[1]
        --set 'fit.methods=["marginal", "adapcla"]' --set 'evaluate.suites=["tail"]' --set evaluate.quick=true
        --set 'fit.settings={{"width": 16, "layers": 1, "heads": 2, "passes": 1}}' --set analyse.parts=[]
        --set targets={{}}
    """,
}
#: Exit codes of verbs that may also be others than 0: so few patients and epochs may or may not meet the gate.
ALLOWED = {"synthesize": (0, 5)}


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page, without the name of the program."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert all(line[0] == "adapcla" for line in lines), "a line that is no command"
    return [line[1:] for line in lines]


def rare_code(train: Path) -> str:
    """The rarest code that a dozen training patients have."""
    cohort = Cohort.open(train)
    held = [(int(n), token) for n, token in zip(cohort.patient_counts, cohort.vocabulary.tokens, strict=True)]
    return min(pair for pair in held if pair[0] >= 12)[1]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Path:
    """An empty folder to work in, with a cache of its own and the experiments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tests.test_readme_commands.SMALLER", SMALLER)
    shutil.copytree(repository / "experiments", tmp_path / "experiments")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_every_command_of_a_page_runs(page: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in commands(page):
        words = [rare_code(here / "parts" / "train") if word == "RARE" else word for word in line]
        code = exit_code(monkeypatch, words, here)
        assert code in ALLOWED.get(line[0], (0,)), f"{' '.join(line)}: ended with {code}"
    if page.stem == "generate":
        for name in ("patients", "patients-with-a-course"):
            made = Cohort.open(here / name)
            assert made.patient_counts[made.vocabulary.index[rare_code(here / "parts" / "train")]] == made.n_patients
        assert Cohort.open(here / "patients-with-a-course").visits_per_patient.min() >= 2
        steered, unsteered = (Cohort.open(here / name) for name in ("calibrated", "unsteered"))
        assert steered.fingerprint != unsteered.fingerprint == Cohort.open(here / "synthetic").fingerprint


def test_the_pages_that_teach_commands_run_them() -> None:
    assert {page.stem for page in PAGES if commands(page)} >= {"release", "data", "generate", "metrics", "reproduce"}
