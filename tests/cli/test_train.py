"""`adapcla train`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.data.rollup import roll_up
from adapcla.errors import ExistsError, UsageError
from adapcla.generation import load
from adapcla.io import simulator as planted

TINY = ["--epochs", "0.5", "--set", "width=16", "--set", "layers=1", "--set", "heads=2", "--set", "batch_size=64"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "cohort"
    planted.simulate(patients=400, codes=60, seed=1).save(folder)
    return folder


def _run(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["--quiet", *words])


def test_a_run_is_trained_on_the_train_part_alone(cohort: Path, tmp_path: Path) -> None:
    result = _run("train", str(cohort), "--out", str(tmp_path / "run"), "--seed", "2", "--json", *TINY)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[-1])
    train, valid, _ = Cohort.open(cohort).split(seed=4)
    assert (facts["patients"], facts["validation patients"]) == (train.n_patients, valid.n_patients)
    assert load(tmp_path / "run").settings.seed == 2


def test_a_folder_of_parts_and_the_cohort_divided_alike_train_the_same_model(cohort: Path, tmp_path: Path) -> None:
    parts, options = str(tmp_path / "parts"), ["--set", "split.control=0.2"]
    assert _run("split", str(cohort), "--seed", "7", "--control", "0.2", "--out", parts).exit_code == 0
    assert _run("train", parts, "--out", str(tmp_path / "one"), *TINY).exit_code == 0
    words = ["--set", "split.seed=7", *options, "--out", str(tmp_path / "two")]
    assert _run("train", str(cohort), *words, *TINY).exit_code == 0
    one, two = (load(tmp_path / name) for name in ("one", "two"))
    assert one.model.origin == two.model.origin
    assert one.sample(20).fingerprint == two.sample(20).fingerprint
    assert one.model.facts["patients"] == Cohort.open(cohort).split(7, control=0.2).train.n_patients
    again = _run("train", parts, "--set", "split.seed=7", "--out", str(tmp_path / "three"), *TINY)
    assert isinstance(again.exception, UsageError) and "divided already" in str(again.exception)


def test_a_shareable_model_knows_only_codes_with_support(cohort: Path, tmp_path: Path) -> None:
    result = _run("train", str(cohort), "--out", str(tmp_path / "run"), "--shareable", *TINY)
    assert result.exit_code == 0, result.output
    train, _, _ = Cohort.open(cohort).split(seed=4)
    known = load(tmp_path / "run").vocabulary_
    wanted = {t for t, n in zip(train.vocabulary.tokens, train.patient_counts, strict=True) if n >= 11}
    assert wanted <= set(known.tokens) and set(known.tokens) & set(train.vocabulary.tokens) == wanted
    assert (roll_up(train, 11).apply(train).on(known).patient_counts >= 11).all()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--method", "nonesuch"], UsageError),
        (["--set", "widht=3"], UsageError),
        (["--set", "width"], UsageError),
        (["--set", "schedule=sudden"], UsageError),
    ],
)
def test_wrong_words_are_refused_before_any_work(
    words: list[str], error: type[Exception], cohort: Path, tmp_path: Path
) -> None:
    result = _run("train", str(cohort), "--out", str(tmp_path / "run"), *words)
    assert isinstance(result.exception, error)
    assert not (tmp_path / "run").exists()


def test_resuming_with_another_setting_is_refused(cohort: Path, tmp_path: Path) -> None:
    words = ["train", str(cohort), "--out", str(tmp_path / "run"), *TINY]
    assert _run(*words).exit_code == 0
    assert isinstance(_run(*words).exception, ExistsError)
    assert _run(*words, "--resume").exit_code == 0
    assert isinstance(_run(*words, "--resume", "--seed", "9").exception, ExistsError)


# ---- differential privacy ---------------------------------------------------------------------------------
def test_private_training_tells_what_it_spent(cohort: Path, tmp_path: Path) -> None:
    pytest.importorskip("opacus", reason="opacus is not installed: pip install 'adapcla[dp]'")
    asked = [
        "train",
        str(cohort),
        "--out",
        str(tmp_path / "run"),
        "--method",
        "adapcla",
        "--epsilon",
        "6",
        "--json",
        *TINY,
    ]
    ran = _run(*asked, "--set", "privacy.delta=0.001")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout.splitlines()[-1])
    assert 5.9 < told["privacy"]["epsilon"] <= 6 and told["privacy"]["delta"] == pytest.approx(0.001)
    assert told["validation loss per visit"] is None
    assert "DP: ε = " in (tmp_path / "run" / "model" / "README.md").read_text()
    assert load(tmp_path / "run").sample(3).n_patients <= 3


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--set", "privacy.delta=0.1"], "add --epsilon"),
        (["--epsilon", "8", "--shareable"], "reads patients beyond"),
        (["--epsilon", "8", "--set", "min_support=5"], "reads patients beyond"),
        (["--epsilon", "8", "--method", "synteg"], "cannot be trained with differential privacy"),
        (["--epsilon", "8", "--method", "marginal"], "cannot be trained with differential privacy"),
        (["--epsilon", "0"], "privacy.epsilon"),
        (["--method", "adapcla", "--epsilon", "8", "--set", "privacy.prior=nowhere.csv"], "no such file"),
    ],
)
def test_private_options_that_contradict_are_refused(
    cohort: Path, tmp_path: Path, options: list[str], why: str
) -> None:
    ran = _run("train", str(cohort), "--out", str(tmp_path / "run"), *options, *TINY[:2])
    assert isinstance(ran.exception, UsageError) and why in str(ran.exception)


def test_codes_of_few_patients_are_rolled_up_and_not_dropped(cohort: Path, tmp_path: Path) -> None:
    """What is left is held by enough training patients, and families stand in the place of their rare members."""
    ran = _run("train", str(cohort), "--out", str(tmp_path / "run"), "--method", "marginal", "--set", "min_support=11")
    assert ran.exit_code == 0, ran.output
    vocabulary = load(tmp_path / "run").vocabulary_
    before = Cohort.open(cohort).vocabulary
    new = set(vocabulary.tokens) - set(before.tokens)
    assert new and all(any(token.startswith(family) for token in before.tokens) for family in new)


def test_without_rate_and_passes_a_few_whole_fits_are_tried(cohort: Path, tmp_path: Path) -> None:
    words = ["train", str(cohort), "--out", str(tmp_path / "run"), "--method", "adapcla-no-scaffold", "--json"]
    ran = _run(*words, *TINY[2:])
    assert ran.exit_code == 0, ran.output
    told = json.loads((tmp_path / "run" / "trials.json").read_text())
    facts = json.loads(ran.stdout.splitlines()[-1])
    losses = [line["validation loss per visit"] for line in told["trials"]]
    assert len(losses) >= 3 and facts["validation loss per visit"] == min(losses)
