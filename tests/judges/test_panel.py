"""Asking a stand-in judge."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.files import read_json
from adapcla.judges import panel as panel_module
from adapcla.judges.environments import CannotInstall, Environments
from adapcla.judges.panel import VERDICTS, Panel, Verdict, asked, judged, ours, table_of
from adapcla.judges.table import JUDGES, Judge

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
COUNTS = """
def version(folder):
    return "7.0"

def verdicts(folder):
    return {"patients": sum(1 for line in open(folder / "subject.csv")) - 1, "valid": True}
"""


class Here:
    """Environments that are this interpreter."""

    def interpreter(self, judge: Judge) -> Path:
        return Path(sys.executable)


def judge(tmp_path: Path, script: str, **changes: object) -> Judge:
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    return replace(JUDGES["sdmetrics"], name="counter", script=str(path), seconds=60, **changes)


@pytest.fixture
def cohorts() -> tuple[Cohort, Cohort, Cohort]:
    """Synthetic, training and test patients."""
    whole = Cohort.of([[["A", "B"], ["A"]], [["C"]], [["B"], ["C"]]] * 30)
    train, _, test = whole.split(seed=4)
    return Cohort.of([[["A"], ["B"]]] * 40), train, test


def test_both_trials_are_of_equally_many_patients_who_do_not_meet(cohorts):
    synthetic, train, test = cohorts
    panel = Panel.of(synthetic, train, test)
    assert panel.synthetic.subject.n_patients == panel.real.subject.n_patients == test.n_patients // 2
    assert panel.real.subject.n_patients + panel.real.test.n_patients == test.n_patients
    assert Panel.of(synthetic, train, test, most=5).synthetic.train.n_patients == 5


def test_test_patients_who_were_trained_on_are_refused(cohorts):
    synthetic, train, _ = cohorts
    with pytest.raises(InputError, match="took part in training"):
        Panel.of(synthetic, train, train)


def test_a_judge_answers_about_synthetic_and_real_patients(cohorts, tmp_path):
    panel = Panel.of(*cohorts)
    said = asked(judge(tmp_path, COUNTS), panel, Here(), {}, tmp_path)
    n = panel.real.subject.n_patients
    assert said == [Verdict("counter", "7.0", "patients", n, n), Verdict("counter", "7.0", "valid", True, True)]


def test_a_judge_that_fails_is_one_line_without_a_cell_of_a_patient(cohorts, tmp_path):
    failing = judge(tmp_path, "def verdicts(folder):\n    raise ValueError('secret cell')")
    (said,) = asked(failing, Panel.of(*cohorts), Here(), {}, tmp_path)
    assert said.synthetic is None
    assert "failed (ValueError); see logs/counter-synthetic.txt" in said.reason
    assert "secret" not in said.reason
    assert b"secret cell" in (tmp_path / "counter-real.txt").read_bytes()


def test_a_judge_that_takes_too_long_is_ended_with_what_it_started(cohorts, tmp_path):
    script = """
def verdicts(folder):
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])
"""
    slow = replace(judge(tmp_path, script), seconds=1)
    (said,) = asked(slow, Panel.of(*cohorts), Here(), {}, tmp_path)
    assert "synthetic patients: gave no answer in 1 s" in said.reason
    assert "real patients: gave no answer in 1 s" in said.reason


def test_a_judge_that_cannot_be_installed_is_one_line(cohorts, tmp_path):
    class Broken:
        def interpreter(self, judge: Judge) -> Path:
            raise CannotInstall("could not be installed: no wheel")

    (said,) = asked(judge(tmp_path, COUNTS), Panel.of(*cohorts), Broken(), {}, tmp_path)
    assert (said.metric, said.reason) == ("", "could not be installed: no wheel")


def test_what_a_judge_needs_is_asked_of_the_user(cohorts, tmp_path):
    needy = judge(tmp_path, COUNTS, needs="--dqd")
    (said,) = asked(needy, Panel.of(*cohorts), Here(), {}, tmp_path)
    assert said.reason == "not asked: it needs --dqd"
    assert len(asked(needy, Panel.of(*cohorts), Here(), {"dqd": "there"}, tmp_path)) == 2


def test_our_own_verdicts_stand_first_with_real_patients_beside(cohorts):
    said = {verdict.metric: verdict for verdict in ours(*cohorts)}
    assert next(iter(said)) == "discriminator_auc"
    assert said["rule_breaks"].judge == "adapcla"
    # Fewer than 50 patients: no number, and the reason.
    assert said["discriminator_auc"].synthetic is None
    assert said["discriminator_auc"].reason


def test_a_folder_of_verdicts_holds_json_tables_and_logs(cohorts, tmp_path, monkeypatch):
    monkeypatch.setattr(panel_module, "ours", lambda *_: [Verdict("adapcla", "1", "auc", 0.6, 0.5)])
    bare = judge(tmp_path, COUNTS, requirements=(), python=VERSION)
    said = judged(*cohorts, [bare], Environments(tmp_path / "environments"), tmp_path / "out", subject="mine")
    content = read_json(tmp_path / "out" / VERDICTS)
    assert content["subject"] == "mine"
    assert [line["judge"] for line in content["verdicts"]] == ["adapcla", "counter", "counter"]
    assert "| counter | 7.0 | valid | True | True |" in (tmp_path / "out" / "verdicts.md").read_text()
    assert {path.name for path in (tmp_path / "out" / "logs").iterdir()} == {
        "counter-synthetic.txt",
        "counter-real.txt",
    }
    assert table_of(said).csv() == (tmp_path / "out" / "verdicts.csv").read_text()
