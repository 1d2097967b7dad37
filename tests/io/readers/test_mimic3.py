from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.fixtures import mimic3, write_csv

from adapcla.errors import InputError
from adapcla.io import read


def test_tokens_descriptions_and_attributes(tmp_path: Path) -> None:
    """Patient 1 is 69 at 2020-01-01, patient 2 is hidden behind an age of 300, patient 3 is 19."""
    data = mimic3(tmp_path)
    write_csv(tmp_path / "D_ICD_DIAGNOSES.csv", ("ICD9_CODE", "LONG_TITLE"), [("4019", "Title, from the release")])
    cohort = read("mimic3", data.root)
    assert next(cohort.patients())[0] == ["ICD9CM/0389", "ICD9CM/4019"]
    by_token = {code.token: code for code in cohort.vocabulary.codes}
    assert by_token["ICD9CM/4019"].description == "Title, from the release"
    band, sex = cohort.attributes["age_band"], cohort.attributes["sex"]
    assert [band.categories[value] for value in band.values] == ["60-69", "90+", "10-19"]
    assert [sex.categories[value] for value in sex.values] == ["F", "M", "F"]


def test_procedures_and_drugs_are_told_apart(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    write_csv(tmp_path / "PROCEDURES_ICD.csv", ("SUBJECT_ID", "HADM_ID", "ICD9_CODE"), [("1", "11", "0389")])
    write_csv(
        tmp_path / "PRESCRIPTIONS.csv",
        ("SUBJECT_ID", "HADM_ID", "NDC", "DRUG"),
        [("1", "11", "00006494300", "Vaccine"), ("1", "11", "0", "NS (Mini Bag Plus)"), ("1", "11", "", "")],
    )
    cohort = read("mimic3", data.root, domains=("px", "rx"))
    assert list(cohort.patients()) == [[["DRUG/NS (Mini Bag Plus)", "ICD9PROC/0389", "NDC/00006494300"]]]
    assert {code.token: code.domain for code in cohort.vocabulary.codes}["ICD9PROC/0389"] == "procedure"
    assert cohort.card["dropped"] == {
        "empty code cells": 1,
        "visits without a code": 3,
        "patients without a visit": 2,
    }


def test_admissions_without_codes_and_patients_without_admissions_are_counted(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    with (tmp_path / "ADMISSIONS.csv").open("a") as stream:
        stream.write("9,3,32,2024-01-01\n")
    with (tmp_path / "PATIENTS.csv").open("a") as stream:
        stream.write("77,M,1990-01-01\n")
    cohort = read("mimic3", data.root)
    assert cohort.card["dropped"] == {"visits without a code": 1, "people of whom no visit is known": 1}


def test_a_code_of_an_unknown_admission_is_counted(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    with (tmp_path / "DIAGNOSES_ICD.csv").open("a") as stream:
        stream.write("1,99,1,4019\n")
    assert read("mimic3", data.root).card["dropped"] == {"codes of visits that are not known": 1}


def test_a_table_is_needed_only_where_its_domain_is(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    with pytest.raises(InputError, match="no table 'procedures_icd'"):
        read("mimic3", data.root, domains=("dx", "px"))


def test_the_demo_gives_the_visits_of_its_normalised_form(open_data_at: Callable[[str], Path]) -> None:
    folder = open_data_at("mimic3_demo")
    cohort, table = read("mimic3", folder), read("table", folder / "visits.csv.gz")
    assert (cohort.n_patients, cohort.n_visits, cohort.n_codes) == (100, 129, 581)
    assert cohort.card["dropped"] == {}
    assert list(cohort.patients()) == list(table.patients())
    assert cohort.days is not None and table.days is not None and (cohort.days == table.days).all()


def test_long_names_of_drugs_stay_apart(tmp_path: Path) -> None:
    """Names were cut at 48 characters and merged."""
    data = mimic3(tmp_path)
    names = [f"Potassium chloride in dextrose and sodium chloride solution {strength} mEq" for strength in (20, 40)]
    header = ("SUBJECT_ID", "HADM_ID", "NDC", "DRUG")
    write_csv(tmp_path / "PRESCRIPTIONS.csv", header, [("1", "11", "0", name) for name in names])
    assert read("mimic3", data.root, domains=("rx",)).vocabulary.tokens == tuple(f"DRUG/{name}" for name in names)
