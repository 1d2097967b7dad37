from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.fixtures import DATASETS, mimic4, write_csv

from adapcla.io import read


def two_versions(folder: Path) -> Path:
    """Patient 1 has hypertension in both revisions, one code that has no counterpart, and one of no version."""
    data = mimic4(folder)
    write_csv(
        folder / "hosp" / "diagnoses_icd.csv",
        ("subject_id", "hadm_id", "seq_num", "icd_code", "icd_version"),
        [
            ("1", "11", "1", "4019 ", "9"),
            ("1", "11", "2", "36570", "9"),
            ("1", "12", "1", "I10", "10"),
            ("1", "12", "1", "I10", "8"),
        ],
    )
    return data.root


def test_revisions_are_kept_apart(tmp_path: Path) -> None:
    cohort = read("mimic4", two_versions(tmp_path))
    assert list(cohort.patients()) == [[["ICD9CM/36570", "ICD9CM/4019"], ["ICD10CM/I10"]]]
    assert cohort.card["dropped"] == {
        "codes of an unknown ICD version": 1,
        "visits without a code": 2,
        "patients without a visit": 2,
    }


def test_revisions_are_mapped_and_what_cannot_be_is_counted(tmp_path: Path) -> None:
    cohort = read("mimic4", two_versions(tmp_path), icd="map10")
    assert list(cohort.patients()) == [[["ICD10CM/I10", "ICD9CM/36570"], ["ICD10CM/I10"]]]
    assert cohort.card["icd"]["codes without a counterpart, kept"] == 1
    back = read("mimic4", two_versions(tmp_path), icd="map9")
    assert list(back.patients()) == [[["ICD9CM/36570", "ICD9CM/4019"], ["ICD9CM/4019"]]]


def test_the_module_folder_itself_will_do(tmp_path: Path) -> None:
    data = mimic4(tmp_path)
    assert read("mimic4", data.root / "hosp").fingerprint == read("mimic4", data.root).fingerprint


def test_age_is_moved_from_the_anchor_year_to_the_first_admission(tmp_path: Path) -> None:
    """65 in 2015 is 70 in 2020; 91 stands for everybody over 89; 19 in 2019."""
    band = read("mimic4", mimic4(tmp_path).root).attributes["age_band"]
    assert [band.categories[value] for value in band.values] == ["70-79", "90+", "10-19"]


@pytest.mark.parametrize("domains", [("dx",), ("dx", "px")])
def test_the_demo_gives_the_visits_of_its_normalised_form(
    open_data_at: Callable[[str], Path], domains: tuple[str, ...]
) -> None:
    folder = open_data_at("mimic4_demo")
    cohort = read("mimic4", folder, domains=domains)
    table = read("table", folder / "visits.csv.gz", domains=domains)
    assert (cohort.n_patients, cohort.n_visits) == (100, 275)
    assert list(cohort.patients()) == list(table.patients())
    assert cohort.days is not None and table.days is not None and (cohort.days == table.days).all()


@pytest.mark.parametrize("source", ["mimic3", "mimic4"])
def test_identifiers_written_with_an_empty_fraction_are_the_same(source: str, tmp_path: Path) -> None:
    """Ids such as 11.0 were repaired in the table of labs alone: all diagnoses were of visits that are not known."""
    data = DATASETS[source](tmp_path)
    table = next(table for table in data.tables if table.code)
    header, *rows = table.path.read_text().splitlines()
    where = [name.lower() for name in header.split(",")].index("hadm_id")
    rows = [",".join(f"{c}.0" if i == where else c for i, c in enumerate(row.split(","))) for row in rows]
    before = read(source, data.root).fingerprint
    table.path.write_text("\n".join([header, *rows]) + "\n")
    assert read(source, data.root).fingerprint == before
