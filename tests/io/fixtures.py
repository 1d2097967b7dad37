"""A tiny valid data set for every source, written by the tests themselves.

To add a source: write a function that makes its files and returns a `Dataset`, and list it in `DATASETS`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapcla.io import ReadOptions

#: (patient, visit, date, codes): ten codes; `0389`, `NA`, `None` and `1E10` must come through as they are.
ROWS = (
    ("1", "11", "2020-01-01", ("0389", "4019")),
    ("1", "12", "2020-03-01", ("25000", "4019")),
    ("2", "21", "2021-05-05", ("1E10", "NA", "None")),
    ("3", "31", "2019-12-31", ("0389", "E8497", "V4581")),
)
#: The patients of `ROWS` as lists of visits of codes.
PATIENTS = [[["0389", "4019"], ["25000", "4019"]], [["1E10", "NA", "None"]], [["0389", "E8497", "V4581"]]]
DAYS = [0, 60, 0, 0]


@dataclass(frozen=True)
class TextTable:
    """One text table of a data set, and which of its columns play a part."""

    path: Path
    #: Columns without which the source cannot be read.
    needed: tuple[str, ...]
    code: str | None = None
    date: str | None = None
    #: Whether its rows hold codes, in a column of which not every form is taken for one.
    coded: bool = False
    #: The column that ties a row to a patient (or to a visit), if an empty one makes the row useless.
    key: str | None = None


@dataclass(frozen=True)
class Dataset:
    """A data set on disk: what to give to the source, and what must come out."""

    root: Path
    options: ReadOptions
    tables: tuple[TextTable, ...]
    #: Codes without their system, as `plain_patients` gives them.
    patients: list[list[list[str]]]
    days: list[int] | None
    #: Files that are no tables, for mutation.
    files: tuple[Path, ...] = ()


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return path


def _codes() -> list[tuple[str, str, str]]:
    return [(patient, visit, code) for patient, visit, _, codes in ROWS for code in codes]


def mimic3(folder: Path) -> Dataset:
    """Upper-case headers, as in the full release."""
    admissions = write_csv(
        folder / "ADMISSIONS.csv",
        ("ROW_ID", "SUBJECT_ID", "HADM_ID", "ADMITTIME"),
        [(str(i), p, v, f"{d} 08:00:00") for i, (p, v, d, _) in enumerate(ROWS)],
    )
    patients = write_csv(
        folder / "PATIENTS.csv",
        ("SUBJECT_ID", "GENDER", "DOB"),
        [("1", "F", "1950-06-01 00:00:00"), ("2", "M", "1721-01-01 00:00:00"), ("3", "F", "2000-01-01 00:00:00")],
    )
    diagnoses = write_csv(
        folder / "DIAGNOSES_ICD.csv",
        ("SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE"),
        [(p, v, str(i), c) for i, (p, v, c) in enumerate(_codes())],
    )
    return Dataset(
        folder,
        ReadOptions(),
        (
            TextTable(admissions, ("SUBJECT_ID", "HADM_ID", "ADMITTIME"), date="ADMITTIME", key="HADM_ID"),
            TextTable(patients, ("SUBJECT_ID", "GENDER", "DOB")),
            TextTable(diagnoses, ("SUBJECT_ID", "HADM_ID", "ICD9_CODE"), code="ICD9_CODE", key="HADM_ID"),
        ),
        PATIENTS,
        DAYS,
    )


def mimic4(folder: Path) -> Dataset:
    """Lower-case headers, tables in `hosp`."""
    admissions = write_csv(
        folder / "hosp" / "admissions.csv",
        ("subject_id", "hadm_id", "admittime"),
        [(p, v, f"{d} 08:00:00") for p, v, d, _ in ROWS],
    )
    patients = write_csv(
        folder / "hosp" / "patients.csv",
        ("subject_id", "gender", "anchor_age", "anchor_year"),
        [("1", "F", "65", "2015"), ("2", "M", "91", "2020"), ("3", "F", "19", "2019")],
    )
    diagnoses = write_csv(
        folder / "hosp" / "diagnoses_icd.csv",
        ("subject_id", "hadm_id", "seq_num", "icd_code", "icd_version"),
        [(p, v, str(i), c, "9") for i, (p, v, c) in enumerate(_codes())],
    )
    return Dataset(
        folder,
        ReadOptions(),
        (
            TextTable(admissions, ("subject_id", "hadm_id", "admittime"), date="admittime", key="hadm_id"),
            TextTable(patients, ("subject_id", "gender", "anchor_age", "anchor_year")),
            TextTable(diagnoses, ("subject_id", "hadm_id", "icd_code", "icd_version"), code="icd_code", key="hadm_id"),
        ),
        PATIENTS,
        DAYS,
    )


def eicu(folder: Path) -> Dataset:
    """Two unit stays in one hospital stay, two codes of two systems in one cell, no dates."""
    patient = write_csv(
        folder / "patient.csv",
        (
            "patientunitstayid",
            "patienthealthsystemstayid",
            "uniquepid",
            "hospitaldischargeyear",
            "hospitaladmitoffset",
            "unitvisitnumber",
            "gender",
            "age",
        ),
        [
            ("101", "11", "1", "2014", "-30", "1", "Female", "69"),
            ("102", "11", "1", "2014", "-900", "2", "Female", "69"),
            ("103", "9", "1", "2015", "-5", "1", "Female", "70"),
            ("201", "21", "2", "2014", "-7", "1", "Male", "> 89"),
        ],
    )
    diagnosis = write_csv(
        folder / "diagnosis.csv",
        ("diagnosisid", "patientunitstayid", "diagnosisoffset", "icd9code"),
        [
            ("1", "101", "5", "038.9, A41.9"),
            ("2", "102", "5", "401.9, I10"),
            ("3", "103", "5", "E849.7"),
            ("4", "201", "5", "V45.81"),
            ("5", "201", "9", "428.0, I50.9"),
        ],
    )
    return Dataset(
        folder,
        ReadOptions(),
        (
            TextTable(patient, ("patientunitstayid", "patienthealthsystemstayid", "uniquepid"), key="uniquepid"),
            TextTable(diagnosis, ("patientunitstayid", "icd9code"), code="icd9code", key="patientunitstayid"),
        ),
        [[["038.9", "401.9", "A41.9", "I10"], ["E849.7"]], [["428.0", "I50.9", "V45.81"]]],
        None,
    )


def table(folder: Path) -> Dataset:
    """One row per code, with column names that no guess would find."""
    dates = {visit: date for _, visit, date, _ in ROWS}
    path = write_csv(
        folder / "long.csv", ("who", "stay", "when", "what"), [(p, v, dates[v], c) for p, v, c in _codes()]
    )
    return Dataset(
        path,
        ReadOptions(patient="who", visit="stay", date="when", codes="what"),
        (TextTable(path, ("who", "stay", "when", "what"), code="what", date="when", key="who"),),
        PATIENTS,
        DAYS,
    )


def omop(folder: Path) -> Dataset:
    """Visits and conditions without a concept table, so that the source values name the codes."""
    dates = {visit: date for _, visit, date, _ in ROWS}
    person = write_csv(
        folder / "person.csv",
        ("person_id", "gender_concept_id", "year_of_birth"),
        [("1", "8532", "1950"), ("2", "8507", "1930"), ("3", "8532", "2000")],
    )
    visits = write_csv(
        folder / "visit_occurrence.csv",
        ("visit_occurrence_id", "person_id", "visit_start_date"),
        [(v, p, d) for p, v, d, _ in ROWS],
    )
    conditions = write_csv(
        folder / "condition_occurrence.csv",
        ("person_id", "condition_concept_id", "condition_start_date", "visit_occurrence_id", "condition_source_value"),
        [(p, "0", dates[v], v, c) for p, v, c in _codes()],
    )
    return Dataset(
        folder,
        ReadOptions(),
        (
            TextTable(person, ("person_id",)),
            # A visit that this table lacks begins with its first code, so an empty one loses nobody.
            TextTable(visits, ("visit_occurrence_id", "person_id", "visit_start_date"), date="visit_start_date"),
            TextTable(
                conditions, ("person_id", "condition_concept_id"), code="condition_source_value", key="person_id"
            ),
        ),
        PATIENTS,
        DAYS,
    )


def meds(folder: Path) -> Dataset:
    """Events with the id of their visit; the standard's Parquet is one of the forms that a table may have."""
    dates = {visit: date for _, visit, date, _ in ROWS}
    events = write_csv(
        folder / "data" / "0.csv",
        ("subject_id", "visit_id", "time", "code"),
        [(p, v, f"{dates[v]} 08:00:00", f"ICD9CM/{c}") for p, v, c in _codes()],
    )
    table = TextTable(events, ("subject_id", "time", "code"), date="time", key="subject_id", coded=True)
    return Dataset(folder, ReadOptions(), (table,), PATIENTS, DAYS)


def fhir(folder: Path) -> Dataset:
    """One file a resource."""

    def save(name: str, resources: list[dict[str, object]]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.ndjson"
        lines = [json.dumps({"resourceType": name, **resource}) + "\n" for resource in resources]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def to(kind: str, identity: str) -> dict[str, str]:
        return {"reference": f"{kind}/{identity}"}

    system = "http://hl7.org/fhir/sid/icd-9-cm"
    files = (
        save("Patient", [{"id": patient, "gender": "female"} for patient in ("1", "2", "3")]),
        save("Encounter", [{"id": v, "subject": to("Patient", p), "period": {"start": d}} for p, v, d, _ in ROWS]),
        save(
            "Condition",
            [
                {
                    "subject": to("Patient", p),
                    "encounter": to("Encounter", v),
                    "code": {"coding": [{"system": system, "code": c}]},
                }
                for p, v, c in _codes()
            ],
        ),
    )
    return Dataset(folder, ReadOptions(), (), PATIENTS, DAYS, files)


def synthea(folder: Path) -> Dataset:
    """The files of the generator, with columns in capitals and times with a zone."""
    patients = write_csv(
        folder / "patients.csv",
        ("Id", "BIRTHDATE", "DEATHDATE", "GENDER"),
        [("1", "1950-01-01", "", "F"), ("2", "1931-01-01", "", "M"), ("3", "2000-01-01", "", "F")],
    )
    write_csv(
        folder / "encounters.csv",
        ("Id", "START", "STOP", "PATIENT", "ENCOUNTERCLASS"),
        [(v, f"{d}T08:00:00Z", f"{d}T09:00:00Z", p, "ambulatory") for p, v, d, _ in ROWS],
    )
    dates = {visit: date for _, visit, date, _ in ROWS}
    conditions = write_csv(
        folder / "conditions.csv",
        ("START", "STOP", "PATIENT", "ENCOUNTER", "CODE", "DESCRIPTION"),
        [(dates[v], "", p, v, c, "") for p, v, c in _codes()],
    )
    return Dataset(
        folder,
        ReadOptions(),
        (
            # The table of encounters may be missing: they then begin with their first code.
            TextTable(patients, ("Id",)),
            TextTable(conditions, ("PATIENT", "ENCOUNTER", "CODE"), code="CODE", key="PATIENT"),
        ),
        PATIENTS,
        DAYS,
    )


#: Source name → what writes its data set into a folder.
DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "mimic3": mimic3,
    "mimic4": mimic4,
    "eicu": eicu,
    "omop": omop,
    "meds": meds,
    "fhir": fhir,
    "table": table,
    "synthea": synthea,
}
