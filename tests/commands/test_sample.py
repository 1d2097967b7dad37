"""`adapcla sample`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapcla.cli import app
from adapcla.commands.sample import conditions
from adapcla.errors import UsageError
from adapcla.generators import generator_for, load
from adapcla.records import Cohort
from adapcla.sources import planted


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train, valid, _ = planted.simulate(patients=300, codes=60, seed=1).split(seed=4)
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=0.5, batch_size=64).fit(train, valid)
    return generator.save(tmp_path_factory.mktemp("sample") / "model")


def _run(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["--quiet", "sample", *words])


def test_the_folder_holds_what_python_would_give(model: Path, tmp_path: Path) -> None:
    result = _run(str(model), "--patients", "50", "--seed", "3", "--out", str(tmp_path / "s"), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["patients"] == 50
    assert Cohort.open(tmp_path / "s").fingerprint == load(model).sample(50, seed=3).fingerprint


def test_a_prior_file_steers_and_strength_zero_does_not(model: Path, tmp_path: Path) -> None:
    base = load(model).prevalence_
    common = base.vocabulary.tokens[int(base.share.argmax())]
    prior = tmp_path / "prior.csv"
    prior.write_text(f"code,prevalence\n{common},0\nPLANTED/UNKNOWN,0.1\n")
    words = [str(model), "--patients", "80", "--toward", str(prior)]
    assert _run(*words, "--out", str(tmp_path / "on")).exit_code == 0
    assert _run(*words, "--strength", "0", "--out", str(tmp_path / "off")).exit_code == 0
    assert _run(str(model), "--patients", "80", "--out", str(tmp_path / "plain")).exit_code == 0
    steered, off, plain = (Cohort.open(tmp_path / name) for name in ("on", "off", "plain"))
    assert steered.visit_counts[base.vocabulary.index[common]] == 0
    assert off.fingerprint == plain.fingerprint
    for name in ("codes.npy", "visit_starts.npy", "patient_starts.npy"):
        assert (tmp_path / "off" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_conditions_are_pairs() -> None:
    with pytest.raises(UsageError, match="sex=F"):
        conditions(["sex"])
