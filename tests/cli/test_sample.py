"""`adapcla sample`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import UsageError
from adapcla.generation import generator_for, load
from adapcla.generation.continuation import as_known
from adapcla.io import simulator as planted


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


def test_a_dry_run_says_time_memory_and_disk_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    found = [
        json.loads(_run(str(model), "--patients", n, "--out", str(tmp_path / "s"), "--dry-run", "--json").stdout)
        for n in ("2000", "2000000")
    ]
    assert found[1]["seconds"] > 20 * found[0]["seconds"] > 0 and found[0]["workers"] == 1
    assert found[1]["disk"] == pytest.approx(1000 * found[0]["disk"], rel=0.01)
    # Memory follows the shard and not the sample.
    assert found[1]["memory"] < 3 * found[0]["memory"]
    assert "on 1 worker," in _run(str(model), "-n", "10", "--out", str(tmp_path / "s"), "--dry-run").stdout
    assert list(tmp_path.iterdir()) == []


def test_conditions_are_pairs(model: Path, tmp_path: Path) -> None:
    result = _run(str(model), "--patients", "5", "--out", str(tmp_path / "s"), "--where", "sex")
    assert isinstance(result.exception, UsageError) and "sex=F" in str(result.exception)


def test_a_steered_sample_says_what_was_achieved(model: Path, tmp_path: Path) -> None:
    """The closed loop ends inside sampling error for nine of ten codes; rare codes alone cannot be judged."""
    planted.simulate(patients=400, codes=60, seed=2, population="shifted").save(tmp_path / "other")
    words = [str(model), "--patients", "300", "--toward", str(tmp_path / "other"), "--json"]
    paper, loop = (
        json.loads(_run(*words, *more, "--out", str(tmp_path / name)).stdout)
        for name, more in (("paper", []), ("loop", ["--calibrate", "--set", "pilot=400"]))
    )
    assert {"inside_sampling_error", "mae", "max_gap", "n_judged", "floor"} == set(paper["achieved"])
    assert loop["achieved"]["inside_sampling_error"] >= 0.9
    assert paper["unknown_codes"] == 0
    drawn, wish = Cohort.open(tmp_path / "paper").prevalence(), Cohort.open(tmp_path / "other").prevalence()
    for line in paper["codes_by_prevalence"]:
        assert line["requested"] == wish.share[wish.vocabulary.index[line["code"]]]
        assert line["achieved"] == drawn.share[drawn.vocabulary.index[line["code"]]]
    assert [line["code"] for line in loop["codes_by_prevalence"]] == list(load(model).vocabulary_.tokens)
    (tmp_path / "rare.csv").write_text(f"code,prevalence\n{load(model).prevalence_.vocabulary.tokens[0]},0.0001\n")
    words[words.index("--toward") + 1] = str(tmp_path / "rare.csv")
    assert json.loads(_run(*words, "--out", str(tmp_path / "rare")).stdout)["achieved"] is None


def test_an_unknown_cluster_is_refused_before_anything_is_written(model: Path, tmp_path: Path) -> None:
    result = _run(str(model), "--patients", "5", "--out", str(tmp_path / "s"), "--cluster", "lokal")
    assert isinstance(result.exception, UsageError) and "expected: local, auto" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_patients_of_a_condition(model: Path, tmp_path: Path) -> None:
    generator = load(model)
    common = generator.vocabulary_.tokens[int(generator.prevalence_.share.argmax())]
    words = [str(model), "--patients", "60", "--having", common, "--visits", "1..2", "--where", "sex=female"]
    result = _run(*words, "--out", str(tmp_path / "s"), "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["patients"] == 60
    assert said["condition"]["having"] == [common] and said["condition"]["where"] == ["sex=female"]
    assert said["effort"]["proposals"] > 0 and said["effort"]["effective"] > 0
    cohort = Cohort.open(tmp_path / "s")
    assert Criteria.of(common, where=[("sex", "female")], visits="1..2").matches(cohort).all()
    again = generator.sample(60, having=common, visits="1..2", where=(("sex", "female"),))
    assert again.fingerprint == cohort.fingerprint and cohort.card["effort"] == said["effort"]


def test_conditions_that_cannot_be_met_are_refused(model: Path, tmp_path: Path) -> None:
    tokens = load(model).vocabulary_.tokens
    words = [str(model), "--patients", "5", "--out", str(tmp_path / "s")]
    for more, said in (
        (["--having", "PLANTED/A00.99"], "nearest: "),
        (["--having", tokens[0], "--without", tokens[0]], "with and without"),
        (["--having", tokens[0], "--resume"], "--resume"),
        (["--having", tokens[0], "--set", "at=noon"], "expected: any, first, last"),
    ):
        result = _run(*words, *more)
        assert isinstance(result.exception, UsageError) and said in str(result.exception), result.output
    result = _run(str(model), "--out", str(tmp_path / "s"))
    assert isinstance(result.exception, UsageError) and "--patients" in str(result.exception)


def test_histories_are_gone_on_with(model: Path, tmp_path: Path) -> None:
    """Two histories, of which one holds a code that the model does not know."""
    tokens = load(model).vocabulary_.tokens
    histories = Cohort.of([[[tokens[0], tokens[1]]], [[tokens[1]], ["PLANTED/unknown"]]])
    histories.save(tmp_path / "histories")
    share = load(model).prevalence_.share
    asked = tokens[int(share.argmax())]
    words = [str(model), "--continue", str(tmp_path / "histories"), "--set", "within=2", "--draws", "4"]
    result = _run(*words, "--having", asked, "--out", str(tmp_path / "f"), "--json")
    assert result.exit_code == 0, result.output
    cohort = Cohort.open(tmp_path / "f")
    assert cohort.n_patients == 8 and cohort.card["draws"] == 4 and cohort.card["histories"] == 2
    assert Criteria.of(asked, within=2).matches(cohort).all() and cohort.visits_per_patient.max() <= 2
    told = json.loads(_run(*words, "--set", "likeliest=3", "--out", str(tmp_path / "g"), "--json").stdout)["likeliest"]
    assert Cohort.open(tmp_path / "g").n_patients == 8 and "likeliest" not in json.loads(result.stdout)
    generator = load(model)
    expected = generator.continue_(as_known(generator.model, histories), 2, 4, 1).probabilities
    for codes, row in zip(told, expected, strict=True):
        assert [code["code"] for code in codes] == [tokens[i] for i in np.argsort(-row, kind="stable")[:3]]
        assert [code["probability"] for code in codes] == pytest.approx(sorted(row, reverse=True)[:3], rel=1e-3)


def test_a_few_patients_are_shown_as_timelines_and_need_no_folder(model: Path, tmp_path: Path) -> None:
    shown = _run(str(model), "-n", "5", "--seed", "3", "--show")
    assert shown.exit_code == 0, shown.output
    people = [line for line in shown.stdout.splitlines() if line.startswith("Synthetic patient ")]
    drawn = load(model).sample(5, seed=3)
    assert len(people) == 5 and f"{drawn.visits_per_patient[0]} visit" in people[0]
    assert "  visit 1, day 0" in shown.stdout and "[rare]" in _run(str(model), "-n", "20", "--show").stdout
    both = _run(str(model), "-n", "5", "--seed", "3", "--show", "--out", str(tmp_path / "s"))
    assert both.stdout == shown.stdout and Cohort.open(tmp_path / "s").fingerprint == drawn.fingerprint
    for words, why in ((["-n", "5"], "no --out"), (["-n", "21", "--show"], "at most 20")):
        ended = _run(str(model), *words)
        assert isinstance(ended.exception, UsageError) and why in str(ended.exception)
