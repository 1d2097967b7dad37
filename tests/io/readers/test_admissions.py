from __future__ import annotations

from pathlib import Path

from tests.io.fixtures import write_csv

from adapcla.io.readers.admissions import load_drugs, load_people, load_visits, titles
from adapcla.io.tables import open_table
from adapcla.io.workbench import Workbench


def test_drugs_by_code_or_by_name(tmp_path: Path) -> None:
    admissions = write_csv(tmp_path / "a.csv", ("subject_id", "hadm_id", "admittime"), [("1", "1", "2020-01-01")])
    rows = [
        ("1", "1", "00006494300", "Vaccine B"),
        ("1", "1", "00006494300", "Vaccine A"),
        ("1", "1", "0000", "5% D W"),
    ]
    prescriptions = write_csv(tmp_path / "p.csv", ("subject_id", "hadm_id", "ndc", "drug"), rows)
    with Workbench() as bench:
        load_visits(bench, open_table(admissions))
        counts, names = load_drugs(bench, open_table(prescriptions))
        entries = bench.query("SELECT system, code, domain FROM entries ORDER BY ALL")
    assert counts == {"rows by NDC": 2, "rows by name, written as a code": 1}
    assert names == {("NDC", "00006494300"): "Vaccine A", ("DRUG", "5_d_w"): "5% D W"}
    assert entries == [("DRUG", "5_d_w", "drug"), *[("NDC", "00006494300", "drug")] * 2]


def test_age_is_that_at_the_first_admission(tmp_path: Path) -> None:
    rows = [("1", "1", "2030-01-01"), ("1", "2", "2020-01-01")]
    admissions = write_csv(tmp_path / "a.csv", ("subject_id", "hadm_id", "admittime"), rows)
    patients = write_csv(
        tmp_path / "p.csv", ("subject_id", "gender", "dob"), [("1", "f", "1995-01-01"), ("2", "m", "")]
    )
    with Workbench() as bench:
        load_visits(bench, open_table(admissions))
        load_people(bench, open_table(patients), {"born": "dob"}, "(first_day - days_of(born)) / 365.25")
        assert bench.query("SELECT patient, sex, age_band FROM people ORDER BY 1") == [
            ("1", "F", "20-29"),
            ("2", "M", ""),
        ]
        assert bench.dropped == {"patients without an admission": 1}


def test_titles_are_optional(tmp_path: Path) -> None:
    assert titles(tmp_path, "d_icd_diagnoses", "ICD9CM") == {}
    write_csv(tmp_path / "D_ICD_DIAGNOSES.csv", ("icd9_code", "long_title"), [("0389", "Septicemia, unspecified")])
    assert titles(tmp_path, "d_icd_diagnoses", "ICD9CM") == {("ICD9CM", "0389"): "Septicemia, unspecified"}
