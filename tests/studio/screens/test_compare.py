"""The page Compare: tables and figures of experiments as their page has them, with the chosen rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.conftest import press, put, text_of

from adapcla.studio.screens.compare import rows_of, table_of
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]


def test_rows_can_be_left_out_and_references_stay(stocked: Path) -> None:
    study = stocked / "runs" / "tiny"
    rows = rows_of(study)
    assert rows == ["adapcla", "adapcla-no-scaffold"]
    every = table_of(study / "tables" / "fidelity.csv", rows, set(rows), "tiny")
    assert [line.cells[0].text for line in every.lines] == [*rows, "real test"]
    assert every.columns == ["method", "unigram R²"] and every.lines[0].cells[1][:3] == ("0.500", 0.5, "0.4 to 0.6")
    fewer = table_of(study / "tables" / "fidelity.csv", ["adapcla"], set(rows), "tiny")
    assert [(line.cells[0].text, line.kind) for line in fewer.lines] == [
        ("adapcla", "method"),
        ("real test", "reference"),
    ]


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
