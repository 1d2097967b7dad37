"""The page Patients: timelines of synthetic patients, a search, patients on demand, and what comes next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.studio.conftest import press, put, text_of

from adapcla.data import Cohort
from adapcla.studio.workspace import Workspace

Shown = Callable[..., Any]


def test_patients_are_shown_in_time_and_only_synthetic_ones_can_be_chosen(shown: Shown) -> None:
    page = shown("patients")
    page.selectbox(key="look-cohort").set_value("samples/first").run()
    said = text_of(page)
    assert "Synthetic patient 1" in said and "40 of 40 synthetic patients" in said and 'class="line"' in said
    options = page.selectbox(key="look-cohort").options
    assert "samples/first" in options and not [name for name in options if "cohorts/" in name or "/data/" in name]


def test_a_code_or_a_word_finds_patients_who_have_it(shown: Shown, folder: Path) -> None:
    cohort = Cohort.open(folder / "samples" / "first")
    code = int(np.argmax(cohort.patient_counts * (cohort.patient_counts < cohort.n_patients)))
    page = shown("patients")
    page.selectbox(key="look-cohort").set_value("samples/first").run()
    page.text_input(key="search").set_value(cohort.vocabulary.codes[code].description).run()
    said = text_of(page)
    assert f"{int(cohort.patient_counts[code]):,} of 40 synthetic patients" in said
    assert cohort.vocabulary.tokens[code] in said
    page.text_input(key="search").set_value("no such word").run()
    assert "No code and no description" in text_of(page)


def test_a_condition_becomes_a_sample(shown: Shown, started: list[list[str]], folder: Path) -> None:
    page = shown("patients")
    page.selectbox(key="ask-model").set_value("runs/one").run()
    token = Cohort.open(folder / "samples" / "first").vocabulary.tokens[3]
    page.multiselect(key="having").set_value([token])
    page.text_input(key="ask-visits").set_value("2..")
    page.number_input(key="ask-patients").set_value(7)
    press(page, "Show me patients")
    out = f"--out=samples/{token.rsplit('/', 1)[-1].lower().replace('.', '-')}"
    assert started == [["sample", "runs/one", out, "--patients=7", f"--having={token}", "--visits=2..", "--json"]]


def test_a_patient_built_by_hand_becomes_a_history_and_shows_what_comes_next(
    shown: Shown, started: list[list[str]], folder: Path
) -> None:
    page = shown("patients")
    page.selectbox(key="build-model").set_value("runs/one").run()
    press(page, "What comes next?")
    assert "a visit without a code" in text_of(page) and not started
    tokens = Cohort.open(folder / "samples" / "first").vocabulary.tokens
    page.number_input(key="build-visits").set_value(2).run()
    page.multiselect(key="visit-1").set_value([tokens[0]])
    page.multiselect(key="visit-2").set_value([tokens[1], tokens[2]])
    press(page, "What comes next?")
    history = Cohort.open(folder / "histories" / "built-by-hand")
    assert list(history.patients()) == [[[tokens[0]], [tokens[1], tokens[2]]]]
    assert history.days is not None and history.days.tolist() == [0, 90]
    assert "--continue=histories/built-by-hand" in started[0] and "--set=likeliest=20" in started[0]
    about = {"kind": "continue", "out": "samples/first", "model": "runs/one"}
    result = {"likeliest": [[{"code": tokens[5], "name": "Some name", "probability": 0.25}]]}
    put(Workspace(folder).jobs, ["sample"], "What comes next", about, folder, result=result)
    said = text_of(shown("patients"))
    assert "Likeliest codes of the next visit" in said and "25 %" in said and "Continuation 1" in said
