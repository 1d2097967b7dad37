"""MIMIC-III and MIMIC-IV: hospital admissions with diagnoses, procedures, prescriptions, labs and how stays ended."""

from __future__ import annotations

from pathlib import Path

from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions
from adapcla.io.tables import Table, find_table, need_table
from adapcla.io.visit_terms import MIMIC_ENDS, MIMIC_KINDS

#: Domain → table, systems of its codes by ICD version, domain of a vocabulary.
_CODES = {
    "dx": ("diagnoses_icd", {"9": "ICD9CM", "10": "ICD10CM"}, "diagnosis"),
    "px": ("procedures_icd", {"9": "ICD9PROC", "10": "ICD10PCS"}, "procedure"),
}
_EVENT = "whole_id(patient) AS patient, whole_id(visit) AS visit"
_NDC = "(regexp_full_match(ndc, '[0-9]{4,}') AND NOT regexp_full_match(ndc, '0+'))"


def read_mimic3(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder with ADMISSIONS, PATIENTS and DIAGNOSES_ICD holds, and the tables of further domains."""
    return _read(db, path, options, four=False)


def read_mimic4(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder with hosp/admissions, patients and diagnoses_icd holds, or the folder hosp itself."""
    return _read(db, path, options, four=True)


def _read(db: Database, path: Path, options: ReadOptions, four: bool) -> SourceTables:
    def table(name: str) -> Table:
        return need_table(path, f"hosp/{name}", name) if four else need_table(path, name)

    db.load(
        "admissions",
        table("admissions"),
        {"patient": "subject_id", "visit": "hadm_id", "start": "admittime"},
        optional={
            name: (name,)
            for name in ("dischtime", "deathtime", "admission_type", "discharge_location", "hospital_expire_flag")
        },
    )
    born = {"age": "anchor_age", "year": "anchor_year"} if four else {"dob": "dob"}
    db.load("people_rows", table("patients"), {"patient": "subject_id", "gender": "gender", **born})
    # In MIMIC-IV the age is that of an anchor year; in MIMIC-III those over 89 were born 300 years before.
    birth = "CAST(try_cast(year AS INTEGER) - try_cast(age AS INTEGER) AS VARCHAR)" if four else "dob"
    events, names = [], []
    for domain, (name, systems, kind) in _CODES.items():
        if domain in options.domains:
            events.append(_load_codes(db, table(name), name, systems, kind, four))
            names += _load_titles(db, path, name)
    if "rx" in options.domains:
        db.load(
            "prescriptions",
            table("prescriptions"),
            {"patient": "subject_id", "visit": "hadm_id", "ndc": "ndc", "drug": "drug"},
            select=f"""{_EVENT}, drug, CASE WHEN {_NDC} THEN 'NDC' ELSE 'DRUG' END AS system,
                CASE WHEN {_NDC} THEN ndc ELSE drug END AS code""",
        )
        events.append(
            """SELECT patient, visit, '' AS time, system, code, 'drug' AS domain, false AS measured, '' AS value,
               '' AS unit FROM prescriptions"""
        )
        names.append("SELECT system, code, drug AS description FROM prescriptions WHERE system = 'NDC' AND drug <> ''")
    if "lab" in options.domains:
        columns = {"patient": "subject_id", "visit": "hadm_id", "code": "itemid"}
        columns |= {"value": "valuenum", "unit": "valueuom", "time": "charttime"}
        db.load("labs", table("labevents"), columns, select=f"{_EVENT}, whole_id(code) AS code, value, unit, time")
        events.append(
            """SELECT patient, visit, time, 'LAB' AS system, code, 'lab' AS domain, true AS measured, value, unit
               FROM labs"""
        )
        if (items := find_table(path, "hosp/d_labitems", "d_labitems")) is not None:
            db.load("items", items, {"code": "itemid", "label": "label"}, optional={"fluid": ("fluid",)})
            names.append(
                """SELECT 'LAB' AS system, whole_id(code) AS code,
                   label || CASE fluid WHEN '' THEN '' ELSE ', ' || fluid END AS description FROM items"""
            )
    return SourceTables(
        visits=f"""SELECT {_EVENT}, start, dischtime AS "end", '' AS day, '' AS sequence, admission_type AS kind,
            discharge_location AS discharge, deathtime <> '' OR hospital_expire_flag = '1' AS died,
            CAST(NULL AS DOUBLE) AS length_days FROM admissions""",
        events=" UNION ALL ".join(events) or NO_EVENTS,
        visit_rule="one hospital admission (hadm_id); ordered by admittime, then hadm_id",
        patients=f"""SELECT whole_id(patient) AS patient, '' AS visit, gender AS sex, {birth} AS birth, '' AS age,
            '' AS death FROM people_rows""",
        known=("sex", "age_band"),
        names=" UNION ALL ".join(f"SELECT system, code, description, '' AS choice_group FROM ({n})" for n in names),
        kind_terms=MIMIC_KINDS,
        discharge_terms=MIMIC_ENDS,
    )


def _load_codes(db: Database, table: Table, name: str, systems: dict[str, str], domain: str, four: bool) -> str:
    """Load a table of ICD codes; SQL for its events."""
    code, version = ("icd_code", {"version": "icd_version"}) if four else ("icd9_code", {})
    system = f"'{systems['9']}'"
    if four:
        system = (
            "CASE whole_id(version) " + " ".join(f"WHEN '{n}' THEN '{s}'" for n, s in systems.items()) + " ELSE '' END"
        )
    columns = {"patient": "subject_id", "visit": "hadm_id", "code": code, **version}
    db.load(name, table, columns, select=f"{_EVENT}, code, {system} AS system")
    db.drop("codes of an unknown ICD version", db.number(f"SELECT count(*) FROM {name} WHERE system = ''"))
    return f"""SELECT patient, visit, '' AS time, system, code, '{domain}' AS domain, false AS measured, '' AS value,
        '' AS unit FROM {name} WHERE system <> ''"""


def _load_titles(db: Database, path: Path, codes: str) -> list[str]:
    """SQL for the titles of ICD-9 codes, where MIMIC-III's table of them is there."""
    name, system = {"diagnoses_icd": ("d_icd_diagnoses", "ICD9CM"), "procedures_icd": ("d_icd_procedures", "ICD9PROC")}[
        codes
    ]
    table = find_table(path, name)
    if table is None or not (table.has("icd9_code") and table.has("long_title")):
        return []
    db.load(name, table, {"code": "icd9_code", "title": "long_title"})
    return [f"SELECT '{system}' AS system, code, title AS description FROM {name}"]
