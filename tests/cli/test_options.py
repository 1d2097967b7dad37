"""Options that several verbs share."""

from __future__ import annotations

import json

import numpy as np
import pytest

from adapcla.cli.options import assignments, emit, listed, pairs, whole_numbers
from adapcla.errors import UsageError


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


def test_lists_numbers_and_pairs() -> None:
    assert listed(" a,,b ") == ("a", "b") and listed("") == ()
    for text in ("one", ",", "0,1", "-3"):
        with pytest.raises(UsageError, match=r"--seeds .*whole numbers above 0"):
            whole_numbers(text, "--seeds")
    assert pairs(["a=b=c"], "--x", "NAME=PATH") == (("a", "b=c"),)
    for item in ("a", "=b", "a="):
        with pytest.raises(UsageError, match="--x: expected NAME=PATH"):
            pairs([item], "--x", "NAME=PATH")
