"""The page Compare: tables and figures of experiments as their page has them, with the chosen rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.conftest import press, put, text_of

from adapcla.studio.screens.compare import chosen_rows, rows_of, sheet_of
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]


def test_rows_can_be_left_out_and_references_stay(stocked: Path) -> None:
    study = stocked / "runs" / "tiny"
    rows = rows_of(study)
    assert rows == ["adapcla", "adapcla-no-scaffold"]
    sheet = sheet_of(study / "tables" / "fidelity.csv")
    names = [cells[0] for _, cells in sheet.lines]
    beside = [name for name in names if name not in rows]
    columns, kept = chosen_rows(sheet, ["adapcla"], set(rows))
    assert set(rows) <= set(names) and beside
    assert columns == sheet.columns and [cells[0] for cells in kept] == ["adapcla", *beside]
    assert len(sheet.columns) == len(sheet.lines[0][1])


def test_tables_figures_and_one_page_of_all(shown: Shown, started: list[list[str]]) -> None:
    page = shown("compare")
    said = text_of(page)
    row = "<span>adapcla-no-scaffold</span>"
    assert "fidelity" in said and "data:image/svg+xml" in said and row in said
    page.multiselect(key="rows").set_value(["adapcla"]).run()
    assert row not in text_of(page)
    press(page, "Make one page of these")
    assert started == [["report", "runs/tiny", "--out=comparisons/tiny", "--json"]]


def test_a_new_experiment_is_a_run(shown: Shown, started: list[list[str]]) -> None:
    page = shown("compare")
    page.text_input(key="run-methods").set_value("halo")
    press(page, "Run it")
    assert started == [["run", "--out=runs", "--cohort=cohorts/world", "--methods=halo", "--quick", "--json"]]


def test_releases_stand_side_by_side(shown: Shown, folder: Path) -> None:
    status = {"title": "Safe", "tone": "green", "value": "8 of 8", "unit": "limits kept", "sentence": ""}
    for name in ("a", "b"):
        about = {"kind": "release", "out": f"releases/{name}"}
        put(Workspace(folder).jobs, ["synthesize"], name, about, folder, result={"status": {"safe": status}})
    said = text_of(shown("compare"))
    assert "releases/a" in said and "releases/b" in said and "8 of 8 limits kept (green)" in said
