"""The page Steer: wishes become a table, both ways are tried, seen side by side, and drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.conftest import press, put, text_of

from adapcla.data import Cohort
from adapcla.data.prevalence import read_prevalence
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]


def test_wishes_become_a_table_and_both_ways_are_tried(shown: Shown, started: list[list[str]], folder: Path) -> None:
    page = shown("steer")
    page.selectbox(key="steer-model").set_value("runs/one").run()
    token = Cohort.open(folder / "samples" / "first").vocabulary.tokens[3]
    page.multiselect(key="steer-codes").set_value([token]).run()
    page.number_input(key=f"wish-{token}").set_value(25.0)
    page.number_input(key="steer-pilot").set_value(500)
    press(page, "See both ways")
    wish = read_prevalence(folder / "targets" / "wishes.csv")
    assert wish.vocabulary.tokens == (token,) and wish.share.tolist() == [0.25]
    paper, loop = started
    assert "--toward=targets/wishes.csv" in paper and "--calibrate" not in paper and "--set=pilot=500" not in paper
    assert {"--toward=targets/wishes.csv", "--calibrate", "--set=pilot=500"} <= set(loop)


def test_a_cohort_can_be_steered_towards(shown: Shown, started: list[list[str]]) -> None:
    page = shown("steer")
    page.radio(key="steer-from").set_value("A cohort in the folder").run()
    page.selectbox(key="steer-cohort").set_value("cohorts/world").run()
    press(page, "See both ways")
    assert len(started) == 2 and all("--toward=cohorts/world" in line for line in started)


def test_both_ways_stand_side_by_side_and_one_is_drawn(shown: Shown, started: list[list[str]], folder: Path) -> None:
    token = Cohort.open(folder / "samples" / "first").vocabulary.tokens[3]
    came = {"inside_sampling_error": 0.5, "mae": 0.01, "max_gap": 0.02, "n_judged": 2, "floor": 0.001}
    for way, achieved in (("paper", 0.2), ("loop", 0.25)):
        line = {"code": token, "before": 0.1, "requested": 0.25, "achieved": achieved}
        about = {"kind": "steer", "way": way, "out": f"samples/{way}", "model": "runs/one", "target": "t.csv"}
        result = {"achieved": came, "codes_by_prevalence": [line]}
        put(Workspace(folder).jobs, ["sample", "--set=pilot=500"], way, about, folder, result=result)
    page = shown("steer")
    said = text_of(page)
    assert all(words in said for words in ("10 %", "25 %", "20 %", "closed loop", "50%", "of 2 assessed codes"))
    page.number_input(key="draw-patients").set_value(50)
    press(page, "Draw them")
    assert {"--patients=50", "--toward=t.csv", "--calibrate", "--set=pilot=500", "--out=samples/steered"} <= set(
        started[-1]
    )
