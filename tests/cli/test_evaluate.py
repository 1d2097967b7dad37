"""`adapcla evaluate` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app, main
from adapcla.data import Cohort
from adapcla.data.provenance import SEPARATED
from adapcla.errors import ExistsError, GateError, InputError, UsageError
from adapcla.evaluation import Scores
from adapcla.evaluation.privacy import LIMITS
from adapcla.generation import generator_for
from adapcla.io import simulator as planted


def patients(seed: int, n: int) -> Cohort:
    draw = np.random.default_rng(seed)
    codes = [f"C{i:02d}" for i in range(30)]
    weight = 1 / np.arange(1, 31)
    return Cohort.of(
        [
            [draw.choice(codes, 4, replace=False, p=weight / weight.sum()) for _ in range(1 + draw.integers(0, 3))]
            for _ in range(n)
        ],
        codes,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cohorts")
    train = patients(1, 300)
    for name, cohort in {
        "train": train,
        "test": patients(2, 120),
        "fresh": patients(3, 120),
        "copied": train.subset(np.arange(200)),
        "control": patients(4, 300),
    }.items():
        cohort.save(root / name)
    return root


def run(folders: Path, out: Path, *more: str, synthetic: str = "fresh") -> str:
    arguments = ["evaluate", "--train", str(folders / "train"), "--test", str(folders / "test")]
    arguments += ["--synthetic", str(folders / synthetic), "--out", str(out), "--set", f"cache={out.parent / 'cache'}"]
    result = CliRunner().invoke(app, [*arguments, *more])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_is_all_that_stdout_carries(folders: Path, tmp_path: Path):
    summary = json.loads(run(folders, tmp_path / "out", "--suites", "tail", "--json"))
    assert summary["method"] == "fresh"
    assert 0 < summary["values"]["pair_seen"] <= 1
    assert summary["values"] == Scores.open(tmp_path / "out").values()
    assert summary["patients"] == {"train": 300, "test": 120, "synthetic": 120}


def test_without_json_a_table_is_printed(folders: Path, tmp_path: Path):
    assert "| pair_seen ↑ | all |" in run(
        folders, tmp_path / "out", "--suites", "tail,fidelity", "--set", "method=mine"
    )
    assert Scores.open(tmp_path / "out").method == "mine"


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(folders: Path, tmp_path: Path):
    found = json.loads(run(folders, tmp_path / "out", "--dry-run", "--json"))
    assert found["seconds"] > 0 and found["memory"] > 1e8 and found["disk"] == 0
    assert not (tmp_path / "out").exists()


def test_a_populated_output_is_refused_before_anything_is_computed(folders: Path, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(ExistsError):
        run(folders, tmp_path / "out", "--suites", "tail")


def test_wrong_names_are_usage_and_input_errors(folders: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="expected one of tail"):
        run(folders, tmp_path / "out", "--suites", "tails")
    with pytest.raises(InputError, match="no such folder"):
        run(folders, tmp_path / "out", "--suites", "tail", synthetic="nowhere")
    assert not (tmp_path / "out").exists()


def test_a_target_adds_the_control_suite(folders: Path, tmp_path: Path):
    prior = tmp_path / "prior.csv"
    prior.write_text("code,prevalence\nC00,0.5\nC01,0.25\n")
    summary = json.loads(run(folders, tmp_path / "out", "--suites", "tail", "--target", str(prior), "--json"))
    assert summary["values"]["control_mae"] > 0


def test_the_gate_refuses_copies_by_name_and_lets_fresh_patients_pass(folders: Path, tmp_path: Path):
    control = ("--control", str(folders / "control"), "--suites", "privacy", "--quick", "--gate")
    few = [limit.name for limit in LIMITS]
    with pytest.raises(GateError, match="not shown  rare_copy_excess"):
        run(folders, tmp_path / "unclear", *control)
    with pytest.raises(UsageError, match="--reason"):
        run(folders, tmp_path / "accepted", *control, f"--accept={few[0]}")
    accepted = [f"--accept={name}" for name in few]
    run(folders, tmp_path / "fresh", *control, *accepted, "--reason=only the house sees it")
    with pytest.raises(GateError, match="copy_excess") as refusal:
        run(folders, tmp_path / "copied", *control, synthetic="copied")
    assert refusal.value.exit_code == 5
    # The scores are there to look at even though the gate said no.
    assert Scores.open(tmp_path / "copied").values()["copy_excess"] > 0.5


def exit_code(*words: str) -> int:
    """The exit code of a whole command line, as a shell sees it."""
    with mock.patch.object(sys, "argv", ["adapcla", "--quiet", *words]), pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_controls_that_were_trained_on_end_with_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The whole road: divided with controls, trained on the whole cohort without any, judged with the controls."""
    planted.simulate(patients=200, codes=60, seed=1).save(tmp_path / "c")
    at = {name: str(tmp_path / name) for name in ("c", "parts", "wrong", "right", "of_wrong", "of_right")}
    small = ["--epochs", "0.2", "--set", "width=16", "--set", "layers=1", "--set", "heads=2"]
    cohorts = [f"--{name}={at['parts']}/{name}" for name in ("train", "test", "control")]
    for words in (
        ["split", at["c"], "--control", "0.1", "--out", at["parts"]],
        ["train", at["c"], "--out", at["wrong"], *small],
        ["train", at["parts"], "--out", at["right"], *small],
        ["sample", at["wrong"], "--patients", "30", "--out", at["of_wrong"]],
        ["sample", at["right"], "--patients", "30", "--out", at["of_right"]],
    ):
        assert exit_code(*words) == 0
    judge = ["evaluate", *cohorts, "--suites", "tail", "--set", f"cache={tmp_path / 'cache'}", "--out"]
    assert exit_code(*judge, str(tmp_path / "s1"), "--synthetic", at["of_wrong"]) == 3
    assert "control patients took part in training" in capsys.readouterr().err
    assert not (tmp_path / "s1").exists()
    judge_right = [*judge, str(tmp_path / "s2"), "--synthetic", at["of_right"]]
    # The sample is innocent, the model behind the attacks is not.
    assert exit_code(*judge_right, "--model", at["wrong"]) == 3
    assert exit_code(*judge_right) == 0
    assert Scores.open(tmp_path / "s2").card[SEPARATED] == "yes"
    assert exit_code(*judge_right, "--model", at["right"], "--overwrite") == 0
    assert Scores.open(tmp_path / "s2")["pair_seen"].n > 0


def test_patients_of_a_condition_are_judged_against_real_ones_of_the_same(tmp_path: Path) -> None:
    train, _, test = planted.simulate(patients=700, codes=60, seed=1).split(seed=4)
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=0.5, batch_size=64).fit(train, train)
    asked = test.vocabulary.tokens[int(test.patient_counts.argmax())]
    train.save(tmp_path / "train")
    test.save(tmp_path / "test")
    generator.save(tmp_path / "model")
    generator.sample(60, having=asked).save(tmp_path / "written")
    words = [f"--{name}={tmp_path / name}" for name in ("train", "test")]
    words += [f"--synthetic={tmp_path / 'written'}", f"--model={tmp_path / 'model'}", f"--having={asked}"]
    result = CliRunner().invoke(app, ["evaluate", *words, f"--out={tmp_path / 'out'}", "--json"])
    assert result.exit_code == 0, result.exception
    rows = json.loads(result.stdout)["rows"]
    assert list(rows) == ["real", "copies", "on demand", "random", "raised", "steered"]
    assert {"same_visit", "before", "after", "sex", "length"} <= set(rows["on demand"])
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "scores.json",
        "scores.md",
        "scores.csv",
        "disease.svg",
        "disease.png",
    }


def test_what_gave_synthetic_patients_away_is_written_beside_the_scores(folders, tmp_path):
    run(folders, tmp_path / "out", "--suites", "discriminator", "--quick")
    lines = (tmp_path / "out" / "gave-away.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "feature,kind,real,synthetic,alone,lost"
    assert len(lines) > 5
