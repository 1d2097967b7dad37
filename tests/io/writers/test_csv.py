"""CSV files as a person meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adapcla.data import Attribute, Code, Cohort
from adapcla.io import read
from adapcla.io import writers as export


def test_the_four_files(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", "csv")
    long = (folder / "long.csv").read_text(encoding="utf-8").splitlines()
    assert long[0] == '"patient_id","visit_id","visit_index","day","code","domain"'
    assert long[3] == '9000000000000,2,2,30,"B","diagnosis"'
    assert (folder / "visits.csv").read_text().splitlines()[1] == '9000000000000,1,1,0,"A B"'
    assert (folder / "patients.csv").read_text().splitlines()[1:] == [
        '9000000000000,"F",1,0',
        '9000000000001,"M",0,0',
        "9000000000002,,1,1",
    ]
    assert '"A","SYS","\'1","A","diagnosis","Alpha, with a comma"' in (folder / "vocabulary.csv").read_text("utf-8")


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    cohort = Cohort.of([[["A"]]], [Code.of("A", description="=HYPERLINK(1)")])
    folder = export.write(cohort, tmp_path / "c", "csv")
    assert '"\'=HYPERLINK(1)"' in (folder / "vocabulary.csv").read_text()
    assert read("table", folder).vocabulary.codes[0].description == "=HYPERLINK(1)"


#: Numbers with zeros in front, with an exponent or too long, dates, fractions, truth values, and codes that are none.
TRICKY = ("0389", "1E10", "10E1", "0016070", "12345678901234567890", "2.10", "1-2", "10/12", "MAR1", "SEPT2", "3-MAI")
PLAIN = ("E119", "E11", "V4581", "I10", "0DTJ4ZZ", "ICD9CM/0389", "CCS/98", "MARS/1")


def spreadsheet(cell: str) -> str:
    """What a spreadsheet leaves of a cell that it takes for a number, a date or a truth value: something else."""
    import re

    number = re.fullmatch(r"[0-9]+([.,][0-9]+)?(e[0-9]+)?", cell, re.IGNORECASE)
    date = re.fullmatch(r"[0-9]{1,2}[-/]([0-9]{1,4}|[a-z]{3})|(jan|mar|sept|dec)[0-9]+", cell, re.IGNORECASE)
    return "changed" if number or date or cell.upper() in ("TRUE", "FALSE") else cell


def test_codes_survive_a_spreadsheet(tmp_path: Path) -> None:
    """Every cell is opened, saved and read again; the same without the codebook, and with several codes in a cell."""
    import csv

    tokens = sorted({*TRICKY, *PLAIN, "TRUE"})
    age = {"age_band": Attribute(np.zeros(len(tokens) + 1, dtype=np.int16), ("10-19",))}
    cohort = Cohort.of([*([[token]] for token in tokens), [tokens]], attributes=age)
    folder = export.write(cohort, tmp_path / "c", "csv")
    for path in folder.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        ids = {n for n, name in enumerate(header) if name in ("patient_id", "visit_id", "visit_index", "day")}
        opened = [[cell if n in ids else spreadsheet(cell) for n, cell in enumerate(row)] for row in rows]
        assert opened == rows
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *opened])
    for file in ("long.csv", "visits.csv"):
        assert read("table", folder / file).fingerprint == cohort.fingerprint
    (folder / "adapcla.json").unlink()
    for file in ("long.csv", "visits.csv"):
        assert list(read("table", folder / file).patients()) == list(cohort.patients())


def test_names_of_labels_may_hold_separators(tmp_path: Path) -> None:
    """The one label of the benchmark with two semicolons must not make the table one of semicolons."""
    names = ("Respiratory failure; insufficiency; arrest (adult)",)
    cohort = Cohort.of([[["A"]], [["B"]]], labels=np.array([[1], [0]], dtype=np.uint8), label_names=names)
    found = read("table", export.write(cohort, tmp_path / "c", "csv"))
    assert found.fingerprint == cohort.fingerprint


def test_without_its_codebook_it_is_a_plain_table(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", "csv")
    (folder / "adapcla.json").unlink()
    for name in ("long.csv", "visits.csv"):
        found = read("table", folder / name)
        assert list(found.patients()) == list(tiny_full.patients())
        assert found.days.tolist() == tiny_full.days.tolist()
