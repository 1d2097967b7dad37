"""The rows of the judges."""

from __future__ import annotations

from pathlib import Path

import pytest

import adapcla.judges
from adapcla.errors import UsageError
from adapcla.judges.table import JUDGES, judges_of

SCRIPTS = Path(adapcla.judges.__file__).parent / "scripts"


@pytest.mark.parametrize("judge", JUDGES.values(), ids=lambda judge: judge.name)
def test_every_judge_has_its_script_a_version_and_a_limit(judge):
    assert (SCRIPTS / judge.script).is_file()
    assert judge.requirements
    assert judge.seconds > 0
    assert judge.summary.endswith(".")
    assert "/" not in judge.folder


def test_every_script_is_of_a_judge():
    known = {judge.script for judge in JUDGES.values()} | {"runner.py", "given.py"}
    assert {path.name for path in SCRIPTS.glob("*.py")} == known


def test_another_requirement_is_another_environment_and_the_same_one_is_shared():
    assert len({judge.folder for judge in JUDGES.values()}) == len(JUDGES) - 1
    assert JUDGES["pyhealth"].folder == JUDGES["pyhealth-omop"].folder


def test_judges_are_chosen_by_name_and_an_unknown_one_is_refused():
    assert [judge.name for judge in judges_of(["syntheval", "syntheval"])] == ["syntheval"]
    assert judges_of([]) == list(JUDGES.values())
    with pytest.raises(UsageError, match="mirror"):
        judges_of(["mirror"])
