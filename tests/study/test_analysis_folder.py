from __future__ import annotations

import json

import polars as pl
import pytest

from adapcla.errors import ExistsError
from adapcla.report.style import panels
from adapcla.study.analysis_folder import ResultFolder


def test_tables_figures_pages_and_a_summary(tmp_path):
    folder = ResultFolder(tmp_path / "out")
    folder.table("told", pl.DataFrame({"x": [1]}), how="by hand")
    with panels() as (figure, _):
        folder.figure("drawn", (figure, "a caption"))
    folder.text("deep/page.md", "# A page")
    folder.facts["found"] = 3
    folder.close()
    names = {path.relative_to(folder.out).as_posix() for path in folder.out.rglob("*") if path.is_file()}
    assert names == {"told.csv", "told.json", "drawn.svg", "drawn.png", "deep/page.md", "summary.json"}
    assert json.loads((folder.out / "summary.json").read_text()) == {"captions": {"drawn": "a caption"}, "found": 3}


def test_a_table_is_written_twice_and_missing_numbers_are_missing(tmp_path):
    ResultFolder(tmp_path).table("deep/told", pl.DataFrame({"x": [1.0, float("nan")]}), how="by hand")
    assert pl.read_csv(tmp_path / "deep" / "told.csv")["x"].to_list() == [1.0, None]
    content = json.loads((tmp_path / "deep" / "told.json").read_text())
    assert content == {"notes": {"how": "by hand"}, "columns": ["x"], "rows": [{"x": 1.0}, {"x": None}]}


def test_a_populated_folder_is_refused_at_once(tmp_path):
    (tmp_path / "old").write_text("mine")
    with pytest.raises(ExistsError):
        ResultFolder(tmp_path)
    assert ResultFolder(tmp_path, overwrite=True).out == tmp_path
