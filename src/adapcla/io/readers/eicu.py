"""eICU: hospital stays of several unit stays, without dates.

Diagnoses are ICD-9 and ICD-10 codes in one cell, treatments paths of words, drugs and labs names.
"""

from __future__ import annotations

from pathlib import Path

from adapcla.data.code_systems import FORMS
from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions
from adapcla.io.tables import need_table
from adapcla.io.visit_terms import EICU_ENDS, EICU_KINDS

VISIT_RULE = (
    "one hospital stay (patienthealthsystemstayid); the source has no dates: ordered by hospitaldischargeyear, then by "
    "the stay's id, which says nothing about time: the order of stays of one year is not known"
)
_NEEDED = {
    "patient": "uniquepid",
    "visit": "patienthealthsystemstayid",
    "unit_stay": "patientunitstayid",
    "discharge_year": "hospitaldischargeyear",
    "admit_offset": "hospitaladmitoffset",
}
#: Sex, age and what tells of stays are not in every extract.
_OPTIONAL = {
    "gender": "gender",
    "age": "age",
    "source": "hospitaladmitsource",
    "location": "hospitaldischargelocation",
    "status": "hospitaldischargestatus",
    "left_offset": "hospitaldischargeoffset",
}


def read_eicu(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder with patient and the tables of the domains holds: diagnosis, treatment, medication, lab."""
    patient = need_table(path, "patient")
    optional = {new: (old,) for new, old in _OPTIONAL.items()}
    db.load("stay_units", patient, _NEEDED, optional=optional)
    db.run(
        """CREATE TABLE units AS SELECT unit_stay, min(patient) AS patient, min(visit) AS visit,
           min(try_cast(admit_offset AS DOUBLE)) AS admitted FROM stay_units GROUP BY unit_stay"""
    )
    parts = {"dx": _load_diagnoses, "px": _load_treatments, "rx": _load_drugs, "lab": _load_labs}
    events = [f"({load(db, path)})" for domain, load in parts.items() if domain in options.domains]
    # The unit stays of one hospital stay follow each other; their own clocks are put in order by when each began.
    placed = f"""SELECT coalesce(u.patient, '') AS patient, coalesce(u.visit, '') AS visit,
        coalesce(CAST(e.minute - coalesce(u.admitted, 0) AS VARCHAR), '') AS time, e.system, e.code, e.domain,
        e.measured, e.value, e.unit FROM ({" UNION ALL BY NAME ".join(events)}) e
        LEFT JOIN units u ON u.unit_stay = e.unit_stay"""
    return SourceTables(
        visits="""SELECT patient, visit, '' AS start, '' AS "end", '' AS day,
            coalesce(CAST(try_cast(discharge_year AS BIGINT) AS VARCHAR), '') AS sequence,
            CASE source WHEN '' THEN 'floor' ELSE source END AS kind,
            CASE WHEN lower(status) = 'expired' THEN 'expired' ELSE location END AS discharge, false AS died,
            (try_cast(left_offset AS DOUBLE) - try_cast(admit_offset AS DOUBLE)) / 1440 AS length_days
            FROM stay_units""",
        events=placed if events else NO_EVENTS,
        visit_rule=VISIT_RULE,
        patients="""SELECT DISTINCT patient, visit, gender AS sex, '' AS birth,
            CASE WHEN starts_with(age, '>') THEN '90' ELSE age END AS age, '' AS death FROM stay_units""",
        known=tuple(name for name, column in (("sex", "gender"), ("age_band", "age")) if patient.has(column)),
        kind_terms=EICU_KINDS,
        discharge_terms=EICU_ENDS,
    )


def _load_diagnoses(db: Database, path: Path) -> str:
    """SQL for the codes of both ICD revisions."""
    db.load("diagnoses", need_table(path, "diagnosis"), {"unit_stay": "patientunitstayid", "cell": "icd9code"})
    # Codes of both forms, such as V10.1, are taken for ICD-9, which comes first.
    cases = " ".join(
        f"WHEN regexp_full_match(upper(code), '{form.pattern}') THEN '{name}'" for name, form in FORMS.items()
    )
    db.run(
        f"""CREATE TABLE diagnosed AS SELECT unit_stay, code, CASE {cases} ELSE '' END AS system
            FROM (SELECT unit_stay, trim(unnest(string_split(cell, ','))) AS code FROM diagnoses)"""
    )
    db.drop(
        "codes of neither ICD-9 nor ICD-10 form",
        db.number("SELECT count(*) FROM diagnosed WHERE system = '' AND code <> ''"),
    )
    return f"""SELECT unit_stay, code, system, 'diagnosis' AS domain, {_CODE} FROM diagnosed
        WHERE system <> '' OR code = ''"""


#: What a row of a code says beside it.
_CODE = "false AS measured, '' AS value, '' AS unit, CAST(NULL AS DOUBLE) AS minute"


def _load_treatments(db: Database, path: Path) -> str:
    """SQL for treatments, which are paths of words."""
    db.load("treatments", need_table(path, "treatment"), {"unit_stay": "patientunitstayid", "code": "treatmentstring"})
    return f"SELECT unit_stay, code, 'TREATMENT' AS system, 'procedure' AS domain, {_CODE} FROM treatments"


def _load_drugs(db: Database, path: Path) -> str:
    """SQL for ordered drugs, by HICL number where there is one, else by name."""
    columns = {"unit_stay": "patientunitstayid", "name": "drugname", "hicl": "drughiclseqno"}
    db.load("drugs", need_table(path, "medication"), columns, optional={"cancelled": ("drugordercancelled",)})
    cancelled = "lower(cancelled) = 'yes'"
    db.drop("orders of drugs that were cancelled", db.number(f"SELECT count(*) FROM drugs WHERE {cancelled}"))
    coded = "whole_id(hicl) NOT IN ('', '0')"
    return f"""SELECT unit_stay, CASE WHEN {coded} THEN whole_id(hicl) ELSE name END AS code,
        CASE WHEN {coded} THEN 'HICL' ELSE 'DRUG' END AS system, 'drug' AS domain, {_CODE} FROM drugs
        WHERE NOT {cancelled}"""


def _load_labs(db: Database, path: Path) -> str:
    """SQL for lab values, by the name of the lab; times are minutes from the begin of a unit stay."""
    columns = {"unit_stay": "patientunitstayid", "code": "labname", "value": "labresult", "minute": "labresultoffset"}
    db.load(
        "labs",
        need_table(path, "lab"),
        columns,
        optional={"unit": ("labmeasurenamesystem",)},
        select="unit_stay, code, value, unit, try_cast(minute AS DOUBLE) AS minute",
    )
    return (
        """SELECT unit_stay, code, 'LAB' AS system, 'lab' AS domain, true AS measured, value, unit, minute FROM labs"""
    )
