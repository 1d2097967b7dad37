"""CSV files that grow: one header, all blocks, closed also after a failure."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from adapcla.io.writers.sheets import Sheets, plain_cell, text_cell


def test_blocks_follow_each_other_under_one_header(tmp_path: Path) -> None:
    with Sheets(tmp_path) as sheets:
        sheets.add("a", {"n": [1], "text": ['x, "y"\nz']})
        sheets.add("b", {"n": [7]})
        sheets.add("a", {"n": [2], "text": [None]})
    with (tmp_path / "a.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["n", "text"], ["1", 'x, "y"\nz'], ["2", ""]]
    assert (tmp_path / "b.csv").read_text().split() == ['"n"', "7"]


def test_files_are_closed_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Sheets(tmp_path) as sheets:
        sheets.add("a", {"n": [1]})
        raise RuntimeError
    assert (tmp_path / "a.csv").read_text().split() == ['"n"', "1"]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "'=1"])
def test_a_mark_is_put_before_what_a_spreadsheet_would_run(text: str) -> None:
    assert plain_cell(text) == "'" + text
    assert plain_cell("1" + text) == "1" + text


@pytest.mark.parametrize(
    "text", ["007", "1.50", "1,5", "50 %", "1E5", "3/4", "12:30", "Okt 4", "4. März 2020", "TRUE", "=x"]
)
def test_a_mark_is_put_before_what_a_spreadsheet_would_change(text: str) -> None:
    assert text_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "A", "E11.9", "14 weeks", "CCS/98", "Mars", "Type 2 diabetes", "0DTJ4ZZ"])
def test_text_that_a_spreadsheet_leaves_alone_has_no_mark(text: str) -> None:
    assert text_cell(text) == text
