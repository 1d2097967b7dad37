"""ACES, with stand-ins that label two of four rows, one of them twice."""

from __future__ import annotations

import re
from types import SimpleNamespace

import polars as pl


def aces(rows: pl.DataFrame, asked: list[str]) -> dict[str, object]:
    load = SimpleNamespace(load=lambda path: asked.append(path.read_text()) or path)
    return {
        "aces.config": SimpleNamespace(TaskExtractorConfig=load),
        "aces.predicates": SimpleNamespace(get_predicates_df=lambda task, data: data),
        "aces.query": SimpleNamespace(query=lambda task, data: rows),
        "omegaconf": SimpleNamespace(DictConfig=dict),
    }


def meds(folder):
    for name in ("data/train", "metadata"):
        (folder / "subject" / name).mkdir(parents=True)
    pl.DataFrame({"code": ["ICD9CM//25000", "ICD9CM//4280"]}).write_parquet(folder / "subject/metadata/codes.parquet")
    pl.DataFrame({"code": ["A"]}).write_parquet(folder / "subject/data/train/0.parquet")


def test_both_tasks_are_asked_with_the_codes_as_the_folder_spells_them(script, folder):
    meds(folder)
    asked: list[str] = []
    rows = pl.DataFrame({"label": [1, 0, 0, 2]})
    said = script("aces_tasks.py", aces(rows, asked)).verdicts(folder)
    assert said["readmission within 30 days: rows"] == 4
    assert said["ICD9CM/4280 within a year of ICD9CM/25000: positive"] == 0.5
    assert "ICD9CM//4280" in asked[1]


def test_discharges_are_found_with_and_without_the_word_of_their_ending(script):
    readmission = script("aces_tasks.py").READMISSION
    found = re.findall(r'regex: "(.*?)"', readmission)
    assert len(found) == 2
    for pattern, name in zip(found, ("DISCHARGE", "ADMISSION"), strict=True):
        assert [bool(re.search(pattern, code)) for code in (name, f"{name}//home", f"{name}S", f"X//{name}")] == [
            True, True, False, False,
        ]  # fmt: skip


def test_a_task_that_finds_nobody_has_no_share(script, folder):
    meds(folder)
    said = script("aces_tasks.py", aces(pl.DataFrame(), [])).verdicts(folder)
    assert said["readmission within 30 days: rows"] == 0
    assert "readmission within 30 days: positive" not in said
