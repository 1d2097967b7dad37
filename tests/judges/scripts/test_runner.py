"""Running a script and writing what it said."""

from __future__ import annotations

import json

import pytest


def test_numbers_and_words_are_written_with_the_version_of_the_package(script, tmp_path):
    (tmp_path / "one.py").write_text(
        "def verdicts(folder):\n    return {'auc': 1, 'valid': True, 'word': folder.name}\n"
    )
    out = tmp_path / "said.json"
    script("runner.py").main(str(tmp_path / "one.py"), "pytest", str(tmp_path), str(out))
    said = json.loads(out.read_text())
    assert said == {"version": pytest.__version__, "verdicts": {"auc": 1.0, "valid": True, "word": tmp_path.name}}


def test_a_judge_that_is_no_package_says_its_version_itself(script, tmp_path):
    (tmp_path / "one.py").write_text("def version(folder):\n    return '9'\n\ndef verdicts(folder):\n    return {}\n")
    script("runner.py").main(str(tmp_path / "one.py"), "no-such-package", str(tmp_path), str(tmp_path / "said.json"))
    assert json.loads((tmp_path / "said.json").read_text())["version"] == "9"
