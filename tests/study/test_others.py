"""Verdicts of outside judges and giveaways, as tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from adapcla.files import write_json
from adapcla.study.others import FOLDER, VERDICTS, gave_away_table, judge_table, judge_tables

SAID = {"judge": "mirror", "version": "1.0", "metric": "auc", "synthetic": 0.65, "real": 0.52, "reason": ""}
SILENT = {"judge": "gone", "version": "2.0", "metric": "", "synthetic": None, "real": None, "reason": "no such wheel"}


def test_a_number_stands_beside_that_of_real_patients_and_silence_has_a_reason():
    table = judge_table({"subject": "tailwise", "verdicts": [SAID, SILENT]})
    assert [cell.text for cell in table.lines[0].cells] == ["mirror", "1.0", "auc", "0.650", "0.520"]
    assert table.lines[1].cells[3].text == "–"
    assert table.lines[1].cells[3].note == "no such wheel"


def test_words_are_shown_as_words():
    table = judge_table({"subject": "s", "verdicts": [{**SAID, "synthetic": True, "real": "valid"}]})
    assert [cell.text for cell in table.lines[0].cells[3:]] == ["True", "valid"]


def test_every_folder_of_verdicts_beside_an_experiment_is_a_table(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / FOLDER / name).mkdir(parents=True)
        write_json(tmp_path / FOLDER / name / VERDICTS, {"subject": name, "verdicts": [SAID]})
    assert [table.key for table in judge_tables(tmp_path)] == ["verdicts-a", "verdicts-b"]
    assert list(judge_tables(tmp_path / "nowhere")) == []


def test_giveaways_of_each_row_are_listed_and_none_is_no_table():
    found = {"feature": "largest visit", "kind": "sizes", "real": 9.0, "synthetic": 12.0, "alone": 0.7, "lost": 0.1}
    study = SimpleNamespace(rows=["tailwise"], curves=lambda row: {"gave_away": [found] * 20})
    table = gave_away_table(study)
    assert len(table.lines) == 8
    assert [cell.text for cell in table.lines[0].cells[:3]] == ["tailwise", "largest visit", "sizes"]
    assert gave_away_table(SimpleNamespace(rows=["tailwise"], curves=lambda row: {})) is None
