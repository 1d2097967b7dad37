"""Data frames in and out: the same patients from pandas, polars and pyarrow, from a file, and back again."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adapcla
from adapcla.data import Attribute, Code, Cohort
from adapcla.data.vocabulary import LENGTH_OF_STAY, discharge_code, visit_kind_code
from adapcla.errors import InputError, UsageError

ROWS = {
    "pid": [10, 10, 10, 9, 9, 10],
    "vid": [1, 1, 2, 7, 7, 11],
    "when": ["2024-01-01", "2024-01-01", "2024-03-01", "2024-02-02", "2024-02-02", "2024-05-01"],
    "dx": ["I10", "E11", "I10", "J45", "J45", "R51"],
    "sex": ["F", "F", None, "M", "M", "F"],
}
EXPECTED = [[["E11", "I10"], ["I10"], ["R51"]], [["J45"]]]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "lazy": lambda rows: pl.LazyFrame(rows)}


@pytest.mark.parametrize("library", FRAMES)
def test_every_library_gives_the_same_patients(library):
    frame = FRAMES[library](ROWS)
    cohort = Cohort.from_frame(frame, patient="pid", visit="vid", date="when", codes="dx", attributes=("sex",))
    assert list(cohort.patients()) == EXPECTED
    assert cohort.days.tolist() == [0, 60, 121, 0]
    assert cohort.attributes["sex"].texts() == ["F", "M"]
    assert cohort.card["dropped"] == {"repeated codes in a visit": 1}


def test_a_frame_and_the_same_rows_in_a_file_are_the_same_cohort(tmp_path):
    frame = pl.DataFrame(ROWS)
    frame.write_csv(tmp_path / "visits.csv")
    columns = {"patient": "pid", "visit": "vid", "date": "when", "codes": "dx", "attributes": ("sex",)}
    read = adapcla.read("table", tmp_path / "visits.csv", **columns)
    assert Cohort.from_frame(frame, **columns).fingerprint == read.fingerprint


def test_visits_are_told_apart_by_days_and_times_are_dates():
    times = [datetime.datetime(2024, 1, 1, 8), datetime.datetime(2024, 1, 1, 20), datetime.datetime(2024, 1, 2, 1)]
    for frame in (
        pl.DataFrame({"p": ["a"] * 3, "t": times, "c": ["A", "B", "C"]}),
        pd.DataFrame({"p": ["a"] * 3, "t": times, "c": list("ABC")}),
    ):
        assert list(Cohort.from_frame(frame, patient="p", date="t", codes="c").patients()) == [[["A", "B"], ["C"]]]
    by_day = pl.DataFrame({"p": [1, 1], "d": [40.0, 3.0], "c": ["A", "B"]})
    assert list(Cohort.from_frame(by_day, patient="p", day="d", codes="c").patients()) == [[["B"], ["A"]]]


def test_codes_may_stand_in_lists_in_columns_or_between_separators():
    lists = pl.DataFrame({"p": [1, 1], "v": [1, 2], "c": [["A", "B"], ["C"]]})
    wide = pd.DataFrame({"p": [1, 1], "v": [1, 2], "c1": ["A", "C"], "c2": ["B", None]})
    joined = pa.table({"p": [1, 1], "v": [1, 2], "c": ["A; B", "C"]})
    made = [
        Cohort.from_frame(lists, patient="p", visit="v", codes="c"),
        Cohort.from_frame(wide, patient="p", visit="v", codes=["c1", "c2"]),
        Cohort.from_frame(joined, patient="p", visit="v", codes="c", separator=";"),
    ]
    assert [list(cohort.patients()) for cohort in made] == [[[["A", "B"], ["C"]]]] * 3
    assert all(not cohort.card["dropped"] for cohort in made)


def test_what_is_dropped_is_counted_by_reason():
    rows = {"p": ["1", None, "1", "2", "3"], "t": ["2024-01-01", "2024-01-01", None, "2024-01-01", "2024-01-01"]}
    frame = pl.DataFrame({**rows, "c": ["A", "B", "C", None, "D"]})
    cohort = Cohort.from_frame(frame, patient="p", date="t", codes="c")
    assert list(cohort.patients()) == [[["A"]], [["D"]]]
    assert cohort.card["dropped"] == {
        "visit rows without a patient, a visit or a readable date": 2,
        "empty code cells": 1,
        "codes of visits that are not known": 2,
        "visits left empty": 1,
        "patients without a visit that has a code": 1,
    }


def test_a_whole_record_goes_out_and_comes_back(tmp_path):
    glucose = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
    codes = [Code.of("I10", "ICD10CM"), glucose, LENGTH_OF_STAY, visit_kind_code("inpatient"), discharge_code("died")]
    rows = [
        [["ICD10CM/I10", "KIND/inpatient", "LAB/glucose", "STAY/days"], ["END/died", "ICD10CM/I10"]],
        [["LAB/glucose"]],
    ]
    nan = float("nan")
    cohort = Cohort.of(
        rows,
        codes,
        values=np.array([nan, nan, 99.5, 3, nan, nan, 120], dtype=np.float32),
        days=np.array([0, 9, 0], dtype=np.int32),
        attributes={"sex": Attribute(np.array([1, -1], dtype=np.int16), ("F", "M"))},
    )
    columns = {"patient": "patient", "visit": "visit", "day": "day", "codes": "code", "system": "system"}
    columns |= {"domain": "domain", "value": "value", "unit": "unit"}
    for backend in ("polars", "pandas", "pyarrow"):
        back = Cohort.from_frame(cohort.to_frame("long", backend), **columns)
        assert (
            back.fingerprint
            == Cohort(
                back.vocabulary, cohort.codes, cohort.visit_starts, cohort.patient_starts, cohort.days, cohort.values
            ).fingerprint
        )
        assert [code[:3] + code[5:] for code in back.vocabulary.codes] == [
            code[:3] + code[5:] for code in cohort.vocabulary.codes
        ]


@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_frames_have_the_form_that_is_asked_for(backend, tiny_full):
    assert {form: tiny_full.to_frame(form, backend).shape[0] for form in ("long", "visits", "wide")} == {
        "long": tiny_full.n_entries,
        "visits": tiny_full.n_visits,
        "wide": tiny_full.n_patients,
    }
    with pytest.raises(UsageError, match="visits or wide"):
        tiny_full.to_frame("tall", backend)


def test_errors_name_columns_and_never_a_cell():
    frame = pl.DataFrame({"pid": ["secret"], "when": ["31.12.2024"], "dx": ["I10"]})
    with pytest.raises(UsageError, match=r"no column 'pidd'.*'pid'"):
        Cohort.from_frame(frame, patient="pidd", date="when", codes="dx")
    with pytest.raises(UsageError, match="tells visits apart"):
        Cohort.from_frame(frame, patient="pid", codes="dx")
    with pytest.raises(InputError, match="2024-05-31") as caught:
        Cohort.from_frame(frame, patient="pid", date="when", codes="dx")
    assert "secret" not in str(caught.value) and "31.12" not in str(caught.value)
    with pytest.raises(UsageError, match="no data frame"):
        Cohort.from_frame([1, 2], patient="pid", date="when", codes="dx")


def test_synthesize_takes_a_frame_and_asks_for_its_columns(tmp_path):
    frame = pl.DataFrame(ROWS)
    with pytest.raises(UsageError, match="which column of the data frame is patient"):
        adapcla.synthesize(frame, out=tmp_path / "release")
    with pytest.raises(UsageError, match="'patien'"):
        adapcla.synthesize(frame, patien="pid", codes="dx", out=tmp_path / "release")
    with pytest.raises(InputError, match="patients"):
        adapcla.synthesize(frame, patient="pid", visit="vid", codes="dx", out=tmp_path / "release")


def test_a_cohort_is_shown_in_a_line_and_a_small_table(tiny_full):
    """`repr(cohort)` had 218,740 characters."""
    large = Cohort.of([[[f"C{i:04d}" for i in range(1000)]]] * 50)
    assert len(repr(large)) < 200 and len(repr(large.vocabulary)) < 100
    assert repr(large).startswith("Cohort(50 patients, 50 visits, 1,000 codes, 50,000 entries")
    shown = tiny_full._repr_html_()
    assert len(shown) < 1000 and "<td>3</td>" in shown
