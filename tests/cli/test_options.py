"""Options that several verbs share."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.cli.options import emit, pairs
from adapcla.errors import UsageError
from adapcla.pipeline.options import arguments_of, assignments, options_of
from adapcla.pipeline.settings import EvaluateOptions, ExportOptions, RunOptions, SampleOptions, TrainOptions
from adapcla.release.settings import ReleaseSettings


def test_assignments_read_numbers_words_and_lists() -> None:
    assert assignments(["a=1", "b=x", "c=[1, 2]", "d=true", "e=a=b"]) == {
        "a": 1, "b": "x", "c": [1, 2], "d": True, "e": "a=b",
    }  # fmt: skip
    with pytest.raises(UsageError, match="NAME=VALUE"):
        assignments(["=3"])


def test_numpy_numbers_are_plain_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"n": np.int64(3), "x": np.float64(0.5)})
    assert json.loads(capsys.readouterr().out) == {"n": 3, "x": 0.5}


def test_of_several_processes_only_the_first_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        emit({"rank": rank})
    assert capsys.readouterr().out == '{"rank": "0"}\n'


def test_former_options_answer_with_what_to_type_now(tmp_path) -> None:
    for words, now in (
        (["synthesize", "planted", "--out", "x", "--rollup", "ccs"], "--set rollup=VALUE"),
        (["synthesize", "planted", "--out", "x", "--labs", "all"], "--read labs=VALUE"),
        (["import", "table", "t.csv", "--out", "x", "--level", "ccs"], "--read level=VALUE"),
        (["sample", "m", "--out", "x", "--assemble"], "--cluster auto"),
        (["sample", "m", "--out", "x", "--within", "2"], "--set within=VALUE"),
        (["train", "c", "--out", "x", "--dp"], "--epsilon 8"),
        (["evaluate", "--references", "4"], "--set attack_models=N"),
        (["run", "--external", "a=b"], "--set external.NAME=FOLDER"),
        (["judge", "made", "--train", "t"], "benchmarks/outside/run.py"),
    ):
        ran = CliRunner().invoke(app, words)
        assert isinstance(ran.exception, UsageError) and now in str(ran.exception), words


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["synthesize", "planted", "--out", "x", "--minutes", "0"], "minutes: Input should be greater than 0"),
        (["synthesize", "planted", "--out", "x", "--set", "rolup=ccs"], "did you mean 'rollup'"),
        (["import", "table", "t.csv", "--out", "x", "--read", "lab=all"], "to do: did you mean 'labs'"),
        (["import", "table", "t.csv", "--out", "x", "--read", "max_visits=two"], "expected a whole number"),
        (["import", "table", "t.csv", "--out", "x", "--domains", "dx,rxx"], "did you mean 'rx'"),
        (["sample", "m", "--out", "x", "--set", "at=noon"], "expected: any, first, last"),
    ],
)
def test_wrong_values_are_refused_with_the_nearest(words: list[str], why: str) -> None:
    ran = CliRunner().invoke(app, words)
    assert isinstance(ran.exception, UsageError) and why in str(ran.exception)


def test_words_ask_for_the_settings_that_they_were_made_of() -> None:
    settings = {
        "minutes": 3.5, "formats": ("csv", "omop"), "accept": ("a b", "c"), "repair": True, "title": "it's --all",
        "rollup": "ccs", "fit.settings.width": 16, "seed": 1,
    }  # fmt: skip
    words = arguments_of(options_of(ReleaseSettings), settings)
    assert "--seed=1" not in words and "--title=it's --all" in words and "--set=rollup=ccs" in words


def test_every_setting_has_help_and_every_option_of_a_verb_is_one_setting() -> None:
    for group in (ReleaseSettings, TrainOptions, SampleOptions, EvaluateOptions, ExportOptions, RunOptions):
        options = options_of(group)
        assert all(option.help.endswith(".") for option in options.values()), group
        assert len({option.flag for option in options.values()}) == len(options)


def test_lists_and_pairs() -> None:
    assert pairs(["a=b=c"], "--x", "NAME=PATH") == (("a", "b=c"),)
    for item in ("a", "=b", "a="):
        with pytest.raises(UsageError, match="--x: expected NAME=PATH"):
            pairs([item], "--x", "NAME=PATH")
