from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from adapcla.errors import UsageError
from adapcla.io import ReadOptions, read, reader_of
from adapcla.io.options import WriteOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"domains": ("labs",)},
        {"lab_values": ("mean",)},
        {"domains": ()},
        {"level": "coarse"},
        {"icd": "map11"},
        {"max_visits": 0},
        {"date_order": "ymd"},
        {"decimal": "dot"},
        {"encoding": "ebcdic"},
    ],
)
def test_a_wrong_option_says_what_is_allowed(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="expected:"):
        ReadOptions(**wrong)


def test_an_unknown_option_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'codes'"):
        read("table", tmp_path / "never-looked-at.csv", code="dx")


def test_an_unknown_source_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'mimic3'"):
        reader_of("mimic33")


def test_labels_are_added_after_reading(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("patient_id,visit_id,code\n1,1,A\n2,2,B\n", encoding="utf-8")
    labels = tmp_path / "labels.csv"
    labels.write_text("code,label\nA,first\n", encoding="utf-8")
    cohort = read("table", data, labels=str(labels))
    assert cohort.label_names == ("first",)
    assert cohort.labels is not None and cohort.labels.tolist() == [[1], [0]]


def test_the_level_is_applied(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("patient_id,visit_id,code\n1,1,25000\n1,1,25001\n", encoding="utf-8")
    cohort = read("table", data, level="category", system="ICD9CM")
    assert list(cohort.patients()) == [[["ICD9CM/250"]]]


@pytest.mark.parametrize("wrong", [{"split": "test"}, {"visit_type": "ward"}, {"birth_year": 0}, {"birth_year": 2001}])
def test_wrong_words_and_years_of_an_export_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        WriteOptions(**wrong)


def test_every_option_of_reading_has_a_help() -> None:
    assert all(option.metadata["help"].endswith(".") for option in fields(ReadOptions))
