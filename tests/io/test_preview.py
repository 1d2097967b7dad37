"""The first look at a source: names, kinds and parts of columns, what would be left out, and never a cell."""

from __future__ import annotations

import json

import pytest

from adapcla.errors import InputError, UsageError
from adapcla.io import preview as first_look
from adapcla.io.preview import masked, n_bytes
from adapcla.io.preview import preview as look

ROWS = ["TRIP1,2011-01-01,I10,3", "TRIP1,2011-01-01,E84,3", "TRIP2,2011-02-01,,1", "TRIP3,bad,I10,2"]


def written(folder, *lines):
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_have_names_kinds_and_parts_and_what_is_left_out_has_reasons(tmp_path):
    """Of four rows by hand: an empty code, an unreadable date, and so two patients without a visit."""
    found = look("table", written(tmp_path, "patient_id,date,code,n", *ROWS))
    assert [(c.name, c.kind, c.part) for c in found.columns] == [
        ("patient_id", "text", "patient"),
        ("date", "text", "date"),
        ("code", "text", "codes (dx)"),
        ("n", "whole numbers", ""),
    ]
    assert (found.tried, found.patients, found.visits, found.codes) == ("all", 1, 1, 2)
    # More than one row in a hundred would be lost, so that reading would end there.
    assert found.problem is not None and "too much of the source would be lost" in found.problem
    assert look("table", tmp_path / "table.csv", allow_dropped=0.7).problem is None
    assert found.dropped["empty code cells"] == 1 and found.dropped["visits without a readable date"] == 1


def test_a_table_whose_columns_cannot_be_guessed_shows_them_with_the_problem(tmp_path):
    table = written(tmp_path, "wer,wann,was,n", *ROWS)
    found = look("table", table)
    assert [c.name for c in found.columns] == ["wer", "wann", "was", "n"]
    assert "no column 'patient_id'" in found.problem and "to do:" in found.problem
    named = look("table", table, allow_dropped=0.7, patient="wer", date="wann", codes="was")
    assert named.problem is None and named.patients == 1


@pytest.mark.parametrize("first", [ROWS[0], "TRIP9,2012-01-01,K50,4", "Smith,cough,female,day"])
def test_the_first_line_of_a_file_without_a_header_is_never_told(tmp_path, first):
    rows = ROWS if "cough" not in first else ["Smith,fever,female,day", "Jones,cough,male,night"]
    found = look("table", written(tmp_path, first, *rows))
    assert not found.header and not any(column.name for column in found.columns)
    said = json.dumps(found.content())
    assert not [cell for line in (first, *rows) for cell in line.split(",") if len(cell) > 3 and f'"{cell}"' in said]


def test_only_the_first_rows_are_tried(tmp_path, monkeypatch):
    rows = [f"P{i},2011-01-01,I10,1" for i in range(50)] + ["P99,2011-01-01,,1"]
    table = written(tmp_path, "patient_id,date,code,n", *rows)
    monkeypatch.setattr(first_look, "FIRST_ROWS", 20)
    found = look("table", table)
    assert found.tried == 20 and found.patients == 20 and found.dropped == {} and found.problem is None


def test_rows_are_shown_with_their_values_masked(tmp_path):
    found = look("table", written(tmp_path, "patient_id,date,code,n", "Müller7,2011-01-01,I10,3"))
    assert found.rows == (("Aaaaaa9", "9999-99-99", "A99", "9"),)
    assert found.systems == {"ICD10CM": 1} and found.seconds is not None
    assert masked("Dr. Ü.-9") == "Aa. A.-9"


def test_a_folder_shows_its_tables_and_is_tried_where_it_is_small(tmp_path, monkeypatch):
    (tmp_path / "ADMISSIONS.csv").write_text("SUBJECT_ID,HADM_ID,ADMITTIME\n1,1,2101-01-01\n")
    (tmp_path / "PATIENTS.csv").write_text("SUBJECT_ID,GENDER,DOB\n1,F,2060-01-01\n")
    (tmp_path / "DIAGNOSES_ICD.csv").write_text("SUBJECT_ID,HADM_ID,ICD9_CODE\n1,1,4019\n1,2,4280\n")
    found = look("mimic3", tmp_path, allow_dropped=0.6)
    assert found.problem is None and found.patients == 1 and sum(found.dropped.values()) == 1
    assert {name for name, _ in found.tables} == {"ADMISSIONS.csv", "PATIENTS.csv", "DIAGNOSES_ICD.csv"}
    assert found.bytes == n_bytes(tmp_path)
    monkeypatch.setattr(first_look, "SMALL_BYTES", 10)
    assert look("mimic3", tmp_path).tried is None
    (tmp_path / "PATIENTS.csv").unlink()
    monkeypatch.setattr(first_look, "SMALL_BYTES", 10_000)
    assert "no table 'patients'" in look("mimic3", tmp_path).problem


def test_what_is_not_there_and_what_is_no_source_are_errors(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        look("table", tmp_path / "nothing.csv")
    with pytest.raises(UsageError, match="no source 'tabel'"):
        look("tabel", tmp_path)
