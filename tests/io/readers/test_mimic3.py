from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.fixtures import mimic3, write_csv

from adapcla.errors import InputError
from adapcla.io import Options
from adapcla.io.readers.mimic3 import read
from adapcla.io.readers.table import read as read_table


def test_tokens_descriptions_and_attributes(tmp_path: Path) -> None:
    """Patient 1 is 69 at 2020-01-01, patient 2 is hidden behind an age of 300, patient 3 is 19."""
    data = mimic3(tmp_path)
    write_csv(tmp_path / "D_ICD_DIAGNOSES.csv", ("ICD9_CODE", "LONG_TITLE"), [("4019", "Title, from the release")])
    cohort = read(data.root, Options())
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
    cohort = read(data.root, Options(domains=("px", "rx")))
    assert list(cohort.patients()) == [[["DRUG/ns_mini_bag_plus", "ICD9PROC/0389", "NDC/00006494300"]]]
    assert {code.token: code.domain for code in cohort.vocabulary.codes}["ICD9PROC/0389"] == "procedure"
    assert cohort.card["drugs"] == {"rows by NDC": 1, "rows by name, written as a code": 2}
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
    cohort = read(data.root, Options())
    assert cohort.card["dropped"] == {"patients without an admission": 1, "visits without a code": 1}


def test_a_code_of_an_unknown_admission_is_counted(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    with (tmp_path / "DIAGNOSES_ICD.csv").open("a") as stream:
        stream.write("1,99,1,4019\n")
    assert read(data.root, Options()).card["dropped"] == {"codes of visits that are not known": 1}


def test_a_table_is_needed_only_where_its_domain_is(tmp_path: Path) -> None:
    data = mimic3(tmp_path)
    with pytest.raises(InputError, match="no table 'procedures_icd'"):
        read(data.root, Options(domains=("dx", "px")))


def test_the_demo_gives_the_visits_of_its_normalised_form(open_data_at: Callable[[str], Path]) -> None:
    folder = open_data_at("mimic3_demo")
    cohort, table = read(folder, Options()), read_table(folder / "visits.csv.gz", Options())
    assert (cohort.n_patients, cohort.n_visits, cohort.n_codes) == (100, 129, 581)
    assert cohort.card["dropped"] == {}
    assert list(cohort.patients()) == list(table.patients())
    assert cohort.days is not None and table.days is not None and (cohort.days == table.days).all()
