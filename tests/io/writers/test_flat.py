"""Flat tables as a person, R, pandas or a spreadsheet meets them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from adapcla.data import Attribute, Code, Cohort
from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.writers import flat


def test_the_four_files(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", "csv")
    long = (folder / "long.csv").read_text(encoding="utf-8").splitlines()
    assert long[0] == "patient_id,visit_id,visit_index,day,code,domain"
    assert long[3] == "9000000000000,2,2,30,B,diagnosis"
    assert (folder / "visits.csv").read_text().splitlines()[1] == "9000000000000,1,1,0,A B"
    assert (folder / "patients.csv").read_text().splitlines() == [
        'patient_id,sex,"label: first","label: second"',
        '9000000000000,F,"1","0"',
        '9000000000001,M,"0","0"',
        '9000000000002,,"1","1"',
    ]
    assert 'A,SYS,1,A,diagnosis,"Alpha, with a comma"' in (folder / "vocabulary.csv").read_text("utf-8")


#: Numbers with zeros in front, with an exponent or a point, dates, truth values, and codes that are none of these.
MISREAD = ("0389", "1E10", "250.2", "4019", "12345678901234567890", "1-2", "10/12", "MAR1", "SEPT2", "TRUE")
PLAIN = ("E119", "V4581", "I10", "0DTJ4ZZ", "ICD9CM/0389", "CCS/98", "MARS/1")


def test_codes_are_written_as_they_are(tmp_path: Path) -> None:
    """Read as text, a column of codes holds the codes: `'4019` would be wrong for R and pandas."""
    tokens = sorted((*MISREAD, *PLAIN))
    cohort = Cohort.of([[["4019", "250.2"]], *([[token]] for token in tokens)])
    folder = export.write(cohort, tmp_path / "c", "csv")
    text = pl.read_csv(folder / "long.csv", infer_schema=False)["code"].to_list()
    assert text == ["250.2", "4019", *tokens]
    listed = pl.read_csv(folder / "vocabulary.csv", infer_schema=False)
    assert listed["code"].to_list() == tokens and listed["code_in_system"].to_list() == tokens
    assert pl.read_csv(folder / "visits.csv", infer_schema=False)["codes"].to_list()[0] == "250.2 4019"


def test_for_excel_marks_the_codes_that_a_spreadsheet_would_change(tmp_path: Path) -> None:
    cohort = Cohort.of([[[token]] for token in (*MISREAD, *PLAIN)])
    folder = export.write(cohort, tmp_path / "c", "csv", options=export.WriteOptions(for_excel=True))
    with (folder / "long.csv").open(newline="", encoding="utf-8") as stream:
        codes = [row["code"] for row in csv.DictReader(stream)]
    assert codes == [*(f"'{token}" for token in MISREAD), *PLAIN]
    for file in ("long.csv", "visits.csv"):
        assert list(read("table", folder / file).patients()) == list(cohort.patients())


def test_free_text_is_no_formula_in_csv_and_as_it_is_in_parquet(tmp_path: Path) -> None:
    ward = {"ward": Attribute(np.array([0, 1], dtype=np.int16), ("-1 West", "10-19"))}
    cohort = Cohort.of([[["A"]], [["A"]]], [Code.of("A", description="=HYPERLINK(1)")], attributes=ward)
    folder = export.write(cohort, tmp_path / "c", "csv")
    assert ",'=HYPERLINK(1)" in (folder / "vocabulary.csv").read_text()
    assert (folder / "patients.csv").read_text().splitlines()[1:] == ["9000000000000,'-1 West", "9000000000001,10-19"]
    assert read("table", folder).fingerprint == cohort.fingerprint
    assert read("table", folder).vocabulary.codes[0].description == "=HYPERLINK(1)"
    columns = pq.read_table(export.write(cohort, tmp_path / "p", "parquet") / "patients.parquet").to_pydict()
    assert columns["ward"] == ["-1 West", "10-19"]


def test_parquet_keeps_types(whole: Cohort, tmp_path: Path) -> None:
    folder = export.write(whole, tmp_path / "p", "parquet")
    long = pl.read_parquet(folder / "long.parquet")
    assert long.schema["day"] == pl.Int32 and long.schema["code"] == pl.String and long.schema["value"] == pl.Float32
    glucose = long.filter(pl.col("code") == "LAB/50931").to_dicts()
    assert [(row["value"], row["unit"]) for row in glucose] == [(pytest.approx(5.4), "mg/dL")]
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapcla.json",
        "long.parquet",
        "patients.parquet",
        "visits.parquet",
        "vocabulary.parquet",
    ]


def test_columns_for_numbers_only_where_there_are_any(tiny: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny, tmp_path / "c", "csv")
    assert (folder / "long.csv").read_text().splitlines()[0] == "patient_id,visit_id,visit_index,code,domain"
    assert "group" not in (folder / "vocabulary.csv").read_text().splitlines()[0]


def test_the_workbook_has_a_sheet_for_each_table_and_text_stays_text(tmp_path: Path) -> None:
    import zipfile

    cohort = Cohort.of([[["0389", "1E10"]]], [Code.of("0389", description="=1+1"), "1E10"])
    folder = export.write(cohort, tmp_path / "x", "xlsx")
    with zipfile.ZipFile(folder / "cohort.xlsx") as book:
        sheets = [name for name in book.namelist() if name.startswith("xl/worksheets/sheet")]
        cells = "".join(book.read(name).decode() for name in sheets)
    assert len(sheets) == 4 and "<f>" not in cells
    for text in ("0389", "1E10", "=1+1", "0389 1E10"):
        assert '<c r="' in cells and f"<t>{text}</t>" in cells


def test_more_rows_than_a_sheet_holds_are_refused(
    tiny: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "_EXCEL_ROWS", 5)
    with pytest.raises(InputError, match="8 rows in the table long"):
        export.write(tiny, tmp_path / "x", "xlsx")
    assert list(tmp_path.iterdir()) == []


def test_names_of_labels_may_hold_separators(tmp_path: Path) -> None:
    """The one label of the benchmark with two semicolons must not make the table one of semicolons."""
    names = ("Respiratory failure; insufficiency; arrest (adult)",)
    cohort = Cohort.of([[["A"]], [["B"]]], labels=np.array([[1], [0]], dtype=np.uint8), label_names=names)
    found = read("table", export.write(cohort, tmp_path / "c", "csv"))
    assert found.fingerprint == cohort.fingerprint


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_without_its_codebook_it_is_a_plain_table(to: str, tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", to)
    (folder / "adapcla.json").unlink()
    for name in (f"long.{to}", f"visits.{to}"):
        found = read("table", folder / name)
        assert list(found.patients()) == list(tiny_full.patients())
        assert found.days.tolist() == tiny_full.days.tolist()
