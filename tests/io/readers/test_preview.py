"""The first look at a source: names, kinds and parts of columns, what would be left out, and never a cell."""

from __future__ import annotations

import json

import pytest

from adapcla.errors import InputError, UsageError
from adapcla.io.readers import preview as first_look
from adapcla.io.readers.preview import FirstRows, n_bytes, preview
from adapcla.io.tables import open_table

ROWS = ["TRIP1,2011-01-01,I10,3", "TRIP1,2011-01-01,E84,3", "TRIP2,2011-02-01,,1", "TRIP3,bad,I10,2"]


def written(folder, *lines):
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_have_names_kinds_and_parts_and_what_is_left_out_has_reasons(tmp_path):
    """Of four rows by hand: an empty code, an unreadable date, and so two patients without a visit."""
    found = preview("table", written(tmp_path, "patient_id,date,code,n", *ROWS))
    assert [(c["name"], c["kind"], c["part"]) for c in found["columns"]] == [
        ("patient_id", "text", "patient"),
        ("date", "text", "date"),
        ("code", "text", "codes (dx)"),
        ("n", "whole numbers", ""),
    ]
    assert (found["problem"], found["tried"], found["patients"], found["visits"], found["codes"]) == (
        None,
        "all",
        1,
        1,
        2,
    )
    assert found["dropped"]["empty code cells"] == 1 and found["dropped"]["visits without a readable date"] == 1


def test_a_table_whose_columns_cannot_be_guessed_shows_them_with_the_problem(tmp_path):
    table = written(tmp_path, "mrn,when,what,n", *ROWS)
    found = preview("table", table)
    assert [c["name"] for c in found["columns"]] == ["mrn", "when", "what", "n"]
    assert "no column 'patient_id'" in found["problem"] and "to do:" in found["problem"]
    named = preview("table", table, patient="mrn", date="when", codes="what")
    assert named["problem"] is None and named["patients"] == 1


@pytest.mark.parametrize("first", [ROWS[0], "TRIP9,2012-01-01,K50,4", "Smith,cough,female,day"])
def test_the_first_line_of_a_file_without_a_header_is_never_told(tmp_path, first):
    rows = ROWS if "cough" not in first else ["Smith,fever,female,day", "Jones,cough,male,night"]
    told = json.dumps(preview("table", written(tmp_path, first, *rows)))
    assert not json.loads(told)["header"]
    assert not [cell for line in (first, *rows) for cell in line.split(",") if len(cell) > 3 and f'"{cell}"' in told]


def test_only_the_first_rows_are_tried(tmp_path, monkeypatch):
    rows = [f"P{i},2011-01-01,I10,1" for i in range(50)] + ["P99,2011-01-01,,1"]
    table = written(tmp_path, "patient_id,date,code,n", *rows)
    monkeypatch.setattr(first_look, "FIRST_ROWS", 20)
    whole = open_table(table)
    first = FirstRows(whole.path, whole.files, whole.columns, 20)
    assert sum(batch.num_rows for batch in first.batches({"p": "patient_id"})) == 20
    monkeypatch.setattr(FirstRows.__init__, "__defaults__", (20,))
    found = preview("table", table)
    assert found["tried"] == 20 and found["patients"] == 20 and found["dropped"] == {}


def test_a_folder_shows_its_tables_and_is_tried_where_it_is_small(tmp_path, monkeypatch):
    (tmp_path / "ADMISSIONS.csv").write_text("SUBJECT_ID,HADM_ID,ADMITTIME\n1,1,2101-01-01\n")
    (tmp_path / "PATIENTS.csv").write_text("SUBJECT_ID,GENDER,DOB\n1,F,2060-01-01\n")
    (tmp_path / "DIAGNOSES_ICD.csv").write_text("SUBJECT_ID,HADM_ID,ICD9_CODE\n1,1,4019\n1,2,4280\n")
    found = preview("mimic3", tmp_path)
    assert found["problem"] is None and found["patients"] == 1 and sum(found["dropped"].values()) == 1
    assert {table["name"] for table in found["tables"]} == {"ADMISSIONS.csv", "PATIENTS.csv", "DIAGNOSES_ICD.csv"}
    assert found["bytes"] == n_bytes(tmp_path)
    monkeypatch.setattr(first_look, "SMALL_BYTES", 10)
    assert preview("mimic3", tmp_path)["tried"] is None
    (tmp_path / "PATIENTS.csv").unlink()
    monkeypatch.setattr(first_look, "SMALL_BYTES", 10_000)
    assert "no table 'patients'" in preview("mimic3", tmp_path)["problem"]


def test_what_is_not_there_and_what_is_no_source_are_errors(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        preview("table", tmp_path / "nothing.csv")
    with pytest.raises(UsageError, match="no source 'tabel'"):
        preview("tabel", tmp_path)
