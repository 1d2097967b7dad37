"""The tutorials, command by command as printed, with smaller numbers."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.test_readme_commands import SMALLER as SMALLER_AS_IN_README
from tests.test_readme_commands import exit_code

from adapcla.cli.main import VERBS
from adapcla.data import Cohort

#: What makes a command small, by its verb; the last value of an option counts.
SMALLER = {
    **{verb: SMALLER_AS_IN_README[verb] for verb in ("train", "sample", "evaluate")},
    # Fewer than 500 patients are too few for a release.
    "simulate": "--patients 520 --codes 60",
    "run": """
        --set 'data.planted={{"patients": 260, "codes": 60, "seed": 1}}' --set sample.patients=100 --set fit.seeds=[1]
        --set 'fit.methods=["marginal", "adapcla"]' --set 'evaluate.suites=["tail"]' --set evaluate.quick=true
        --set 'fit.settings={{"width": 16, "layers": 1, "heads": 2, "passes": 1}}' --set analyse.parts=[]
    """,
    "synthesize": """--method marginal --set evaluate.quick=true --set 'evaluate.suites=["tail", "privacy"]'""",
}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page, without the name of the program."""
    lines = [shlex.split(line) for block in blocks(page, "bash") for line in block.splitlines()]
    assert lines and all(line[0] == "adapcla" for line in lines), "a line that is no command"
    return [line[1:] for line in lines]


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Callable[..., Path]:
    """A function that runs the commands of a page in an empty folder, with words replaced; that folder."""

    def run(name: str, allowed: dict[str, tuple[int, ...]] | None = None, **words: Callable[[], str]) -> Path:
        page = repository / "docs" / "tutorials" / f"{name}.md"
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr("tests.test_readme_commands.SMALLER", SMALLER)
        for block in blocks(page, "toml"):
            (tmp_path / re.match(r"# (\S+)\n", block)[1]).write_text(block)  # type: ignore[index]
        for line in commands(page):
            line = [words[_key(word)]() if _key(word) in words else word for word in line]
            code = exit_code(monkeypatch, line, tmp_path)
            assert code in (allowed or {}).get(line[0], (0,)), f"{' '.join(line)}: ended with {code}"
        return tmp_path

    return run


def _key(word: str) -> str:
    """A word of a command as the name of an argument."""
    return word.strip("/").replace("/", "_").replace("-", "_")


def test_your_first_release(follow: Callable[..., Path]) -> None:
    if "synthesize" not in VERBS:
        pytest.skip("the command `adapcla synthesize` is not there")
    # So few patients and passes may or may not meet the gate, but the page is about both ends.
    folder = follow("first-release", {"synthesize": (0, 5)})
    assert (folder / "tables" / "visits.csv").read_text().startswith('"patient_id","visit_id","visit_index","day",')


def test_mimic_iv(follow: Callable[..., Path], open_data_at: Callable[[str], Path]) -> None:
    demo = open_data_at("mimic4_demo")
    folder = follow("mimic-iv", path_to_mimic_iv=lambda: str(demo))
    assert Cohort.open(folder / "cohort").n_patients == 100
    assert "real" in (folder / "scores" / "scores.md").read_text()
    assert (folder / "meds" / "metadata" / "codes.parquet").is_file() and (folder / "omop" / "person.csv").is_file()


def test_a_rare_disease(follow: Callable[..., Path], tmp_path: Path) -> None:
    from adapcla.cli.sample import sample

    if "having" not in inspect.signature(sample).parameters:
        pytest.skip("`adapcla sample` has no option --having")

    def rare() -> str:
        """The rarest code that a dozen training patients have."""
        train = Cohort.open(tmp_path / "parts" / "train")
        held = [(int(n), token) for n, token in zip(train.patient_counts, train.vocabulary.tokens, strict=True)]
        return min(pair for pair in held if pair[0] >= 12)[1]

    folder = follow("rare-disease", RARE=rare)
    for name in ("patients", "patients-with-a-course"):
        made = Cohort.open(folder / name)
        assert made.patient_counts[made.vocabulary.index[rare()]] == made.n_patients
    assert Cohort.open(folder / "patients-with-a-course").visits_per_patient.min() >= 2


def test_another_hospital(follow: Callable[..., Path]) -> None:
    folder = follow("another-hospital")
    assert (folder / "b.csv").read_text().startswith("code,prevalence")
    steered, unsteered = (Cohort.open(folder / name) for name in ("calibrated", "unsteered"))
    assert steered.fingerprint != unsteered.fingerprint
    # What the page says of strength 0.
    from adapcla import load

    assert unsteered.fingerprint == load(folder / "run").sample(150, seed=1).fingerprint


def test_a_fair_comparison(follow: Callable[..., Path]) -> None:
    folder = follow("fair-comparison")
    page = (folder / "runs" / "comparison" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("marginal", "adapcla", "theirs"))


def test_every_tutorial_is_listed_and_has_its_test(repository: Path) -> None:
    pages = {path.stem for path in (repository / "docs" / "tutorials").glob("*.md")} - {"index"}
    listed = re.findall(r"\((\S+)\.md\)", (repository / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8"))
    assert sorted(pages) == sorted(listed)
    followed = re.findall(r'follow\("([\w-]+)"', Path(__file__).read_text(encoding="utf-8"))
    assert sorted(set(followed)) == sorted(pages)
