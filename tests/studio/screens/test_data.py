"""The page Data: the three ways in, first looks, choices, and descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.conftest import press, put, text_of

from adapcla.data import Cohort
from adapcla.data.description import describe
from adapcla.io.preview import preview
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]
NAMED = "A file or folder on this computer"


def look(folder: Path, table: Path, **came: Any) -> None:
    """A first look that has ended."""
    about = {"kind": "look", "source": "table", "path": str(table), "options": json.dumps({})}
    put(Workspace(folder).jobs, ["import"], "A first look", about, folder, **came)


def test_the_example_world_is_one_click_away(shown: Shown, started: list[list[str]]) -> None:
    press(shown("data"), "Make the example cohort")
    assert ["simulate", "--out=cohorts/example-cohort", "--patients=8000", "--codes=400", "--json"] in started


def test_a_named_path_is_looked_at_and_a_wrong_one_is_an_error(
    shown: Shown, started: list[list[str]], tmp_path: Path
) -> None:
    page = shown("data")
    page.radio[0].set_value(NAMED).run()
    page.text_input(key="path").set_value(str(tmp_path / "nowhere"))
    press(page, "Look at it")
    assert "no such file or folder" in text_of(page) and not [line for line in started if line[0] == "import"]
    (tmp_path / "t.csv").write_text("patient_id,date,code\n")
    page.text_input(key="path").set_value(str(tmp_path / "t.csv"))
    press(page, "Look at it")
    assert ["import", "table", str(tmp_path / "t.csv"), "--out=unused", "--dry-run", "--json"] in started


def test_columns_guesses_and_what_is_left_out_are_shown_and_choices_become_options(
    shown: Shown, started: list[list[str]], folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "visits.csv"
    rows = ["TRIP1,2011-01-01,I10,F", "TRIP2,2011-01-02,,M", "TRIP2,2011-01-02,E84,M"]
    table.write_text("\n".join(["patient_id,date,code,sex", *rows]) + "\n")
    look(folder, table, result=preview("table", table).content())
    page = shown("data")
    page.radio[0].set_value(NAMED).run()
    said = text_of(page)
    assert "codes (dx)" in said and "empty code cells" in said and "TRIP" not in said
    page.selectbox(key="column-visit").set_value("date")
    page.multiselect(key="attributes").set_value(["sex"])
    page.multiselect(key="reading-domains").set_value(["dx", "lab", "stay"])
    page.selectbox(key="column-kind").set_value("sex")
    page.text_input(key="reading-labs").set_value("all")
    page.text_input(key="cohort-name").set_value("My Patients")
    press(page, "Read all of it")
    started_words = next(line for line in started if line[:3] == ["import", "table", str(table)])
    assert set(started_words[3:]) == {
        *("--out=cohorts/my-patients", "--visit=date", "--attributes=sex", "--domains=dx,lab,stay"),
        *("--read=kind=sex", "--read=labs=all", "--json"),
    }


def test_a_wrong_table_shows_the_message_and_cannot_be_read(shown: Shown, folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "wrong.csv"
    table.write_text("a,b\n1,2\n")
    look(folder, table, result=preview("table", table).content())
    page = shown("data")
    page.radio[0].set_value(NAMED).run()
    assert "no column" in text_of(page) and "to do:" in text_of(page)
    assert next(button for button in page.button if button.label == "Read all of it").disabled


def test_a_description_is_asked_for_once_and_shown_without_small_counts(
    shown: Shown, started: list[list[str]], folder: Path
) -> None:
    shown("data")
    assert started[-1][:2] == ["describe", "cohorts/world"] and len(started) == 1
    description = describe(Cohort.open(folder / "cohorts" / "world"))
    description["attributes"] = {"sex": {"F": 290, "M": 10}}
    about = {"kind": "describe", "cohort": "cohorts/world"}
    put(Workspace(folder).jobs, ["describe"], "Describing it", about, folder, result=description)
    said = text_of(shown("data"))
    assert "visits per patient" in said and "fewer than 11" in said and "290" in said and len(started) == 1
