"""eICU: hospital stays of several unit stays, ordered without dates.

Diagnoses are ICD-9 and ICD-10 codes in one cell, treatments paths of words, drugs and labs names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.data import Cohort
from adapcla.data.code_systems import FORMS
from adapcla.io.assembly import assemble
from adapcla.io.contract import Options
from adapcla.io.courses import NO_DAY, make_courses
from adapcla.io.tables import Table, need_table
from adapcla.io.words import EICU_ENDS, EICU_KINDS
from adapcla.io.workbench import Workbench

VISIT_RULE = (
    "one hospital stay (patienthealthsystemstayid); the source has no dates: ordered by hospitaldischargeyear, then by "
    "hospitaladmitoffset of the first unit stay, then by the stay's id"
)
_PATIENT_COLUMNS = {
    "patient": "uniquepid",
    "visit": "patienthealthsystemstayid",
    "unit": "patientunitstayid",
    "discharge_year": "hospitaldischargeyear",
    "admit_offset": "hospitaladmitoffset",
    "unit_number": "unitvisitnumber",
    "gender": "gender",
    "age": "age",
    "source": "hospitaladmitsource",
    "location": "hospitaldischargelocation",
    "status": "hospitaldischargestatus",
    "left_offset": "hospitaldischargeoffset",
}
_STAY_COLUMNS = (
    "hospitaladmitsource",
    "hospitaldischargelocation",
    "hospitaldischargestatus",
    "hospitaldischargeoffset",
)


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with patient and the tables of the domains: diagnosis, treatment, medication, lab."""
    patient = need_table(root, "patient")
    # Sex, age and what tells of stays are not in every extract.
    optional = {"gender", "age", *_STAY_COLUMNS}
    columns = {new: old for new, old in _PATIENT_COLUMNS.items() if old not in optional or patient.has(old)}
    card: dict[str, Any] = {}
    descriptions: dict[tuple[str, str], str] = {}
    with Workbench() as bench:
        bench.load("stays", patient, columns)
        _shape_visits(bench)
        if "dx" in options.domains:
            _load_diagnoses(bench, need_table(root, "diagnosis"))
        if "px" in options.domains:
            descriptions |= _load_treatments(bench, need_table(root, "treatment"))
        if "rx" in options.domains:
            descriptions |= _load_drugs(bench, need_table(root, "medication"))
        if "lab" in options.domains:
            descriptions |= _load_labs(bench, need_table(root, "lab"))
        if "stay" in options.domains:
            card["stays"] = _load_courses(bench, columns)
        attributes = _people(bench, "gender" in columns, "age" in columns)
        return assemble(
            bench,
            source="eicu",
            visit_rule=VISIT_RULE,
            options=options,
            attributes=attributes,
            descriptions=descriptions,
            results="lab" in options.domains,
            courses="stay" in options.domains,
            card=card,
            path=root,
        )


def _shape_visits(bench: Workbench) -> None:
    """Make `visits`, `units` (the visit of each unit stay) and an empty `entries`."""
    bench.run(
        """CREATE TABLE visits AS SELECT patient, visit, '' AS date, '' AS day,
           CAST(coalesce(min(try_cast(discharge_year AS BIGINT)), 9999) * 1000000000
                + coalesce(first(try_cast(admit_offset AS BIGINT) ORDER BY try_cast(unit_number AS INTEGER), unit), 0)
                AS VARCHAR) AS sequence FROM stays GROUP BY patient, visit"""
    )
    bench.run("CREATE TABLE units AS SELECT DISTINCT unit, patient, visit FROM stays")
    bench.run("CREATE TABLE entries (patient VARCHAR, visit VARCHAR, code VARCHAR, system VARCHAR, domain VARCHAR)")


def _add_entries(bench: Workbench, rows: str) -> None:
    """Add a query of unit, code, system and domain to `entries`."""
    bench.run(
        f"""INSERT INTO entries SELECT coalesce(s.patient, ''), coalesce(s.visit, ''), d.code, d.system, d.domain
            FROM ({rows}) d LEFT JOIN units s ON s.unit = d.unit"""
    )


def _load_diagnoses(bench: Workbench, table: Table) -> None:
    """Add the codes of both ICD revisions to `entries`."""
    bench.load("diagnoses", table, {"unit": "patientunitstayid", "cell": "icd9code"})
    # Codes of both forms, such as V10.1, are taken for ICD-9, which comes first.
    cases = " ".join(
        f"WHEN regexp_full_match(upper(code), '{form.pattern}') THEN '{name}'" for name, form in FORMS.items()
    )
    bench.run(
        f"""CREATE TABLE diagnosed AS SELECT unit, code, CASE {cases} ELSE '' END AS system, 'diagnosis' AS domain
            FROM (SELECT unit, trim(unnest(string_split(cell, ','))) AS code FROM diagnoses)"""
    )
    bench.drop(
        "codes of neither ICD-9 nor ICD-10 form",
        bench.number("SELECT count(*) FROM diagnosed WHERE system = '' AND code <> ''"),
    )
    _add_entries(bench, "SELECT * FROM diagnosed WHERE system <> '' OR code = ''")


def _load_treatments(bench: Workbench, table: Table) -> dict[tuple[str, str], str]:
    """Add treatments, which are paths of words, to `entries`; the paths."""
    bench.load("treatments", table, {"unit": "patientunitstayid", "path": "treatmentstring"})
    _add_entries(
        bench, "SELECT unit, path_token(path) AS code, 'TREATMENT' AS system, 'procedure' AS domain FROM treatments"
    )
    named = bench.query("SELECT path_token(path), min(path) FROM treatments GROUP BY 1")
    return {("TREATMENT", code): path for code, path in named}


def _load_drugs(bench: Workbench, table: Table) -> dict[tuple[str, str], str]:
    """Add ordered drugs to `entries`, by HICL number where there is one, else by name; the names."""
    columns = {"unit": "patientunitstayid", "name": "drugname", "hicl": "drughiclseqno"}
    cancelled = {"cancelled": "drugordercancelled"} if table.has("drugordercancelled") else {}
    bench.load("drug_rows", table, columns | cancelled)
    if cancelled:
        taken_back = "lower(cancelled) = 'yes'"
        bench.drop(
            "orders of drugs that were cancelled", bench.number(f"SELECT count(*) FROM drug_rows WHERE {taken_back}")
        )
        bench.run(f"DELETE FROM drug_rows WHERE {taken_back}")
    coded = r"regexp_replace(hicl, '\.0+$', '')"
    bench.run(
        f"""CREATE TABLE drugs AS SELECT unit, name, 'drug' AS domain,
            CASE WHEN {coded} NOT IN ('', '0') THEN 'HICL' ELSE 'DRUG' END AS system,
            CASE WHEN {coded} NOT IN ('', '0') THEN {coded} ELSE path_token(lower(name)) END AS code FROM drug_rows"""
    )
    _add_entries(bench, "SELECT unit, code, system, domain FROM drugs")
    named = bench.query("SELECT system, code, min(name) FROM drugs WHERE name <> '' GROUP BY system, code")
    return {(system, code): name for system, code, name in named}


def _load_labs(bench: Workbench, table: Table) -> dict[tuple[str, str], str]:
    """Make `results`, by the name of the lab; times are minutes from the begin of a unit stay. The names."""
    columns = {"unit_stay": "patientunitstayid", "name": "labname", "value": "labresult", "offset": "labresultoffset"}
    units = {"unit": "labmeasurenamesystem"} if table.has("labmeasurenamesystem") else {}
    select = f"""unit_stay, name, number_of(value) AS value, {"unit" if units else "'' AS unit"},
        try_cast("offset" AS DOUBLE) AS moment"""
    bench.load("lab_rows", table, columns | units, select=select)
    # The unit stays of one hospital stay follow each other; their own clocks are put in order by when each began.
    bench.run(
        """CREATE VIEW results AS SELECT coalesce(u.patient, '') AS patient, coalesce(u.visit, '') AS visit,
           path_token(r.name) AS code, 'LAB' AS system, 'lab' AS domain, r.value, r.unit,
           r.moment - coalesce(u.admitted, 0) AS moment FROM lab_rows r LEFT JOIN (
               SELECT unit, any_value(patient) AS patient, any_value(visit) AS visit,
               any_value(try_cast(admit_offset AS DOUBLE)) AS admitted FROM stays GROUP BY unit
           ) u ON u.unit = r.unit_stay"""
    )
    named = bench.query("SELECT path_token(name), min(name) FROM lab_rows GROUP BY 1")
    return {("LAB", code): name for code, name in named}


def _load_courses(bench: Workbench, columns: dict[str, str]) -> dict[str, int]:
    """Make `courses` of how hospital stays began and ended; words that are not known."""
    has = {name: name if name in columns else "''" for name in ("source", "location", "status", "left_offset")}
    return make_courses(
        bench,
        f"""SELECT patient, visit, CASE {has["source"]} WHEN '' THEN 'floor' ELSE {has["source"]} END AS kind,
            CASE WHEN lower({has["status"]}) = 'expired' THEN 'expired' ELSE {has["location"]} END AS ending,
            false AS died, {NO_DAY} AS begins,
            (try_cast({has["left_offset"]} AS DOUBLE) - try_cast(admit_offset AS DOUBLE)) / 1440 AS days FROM stays""",
        EICU_KINDS,
        EICU_ENDS,
    )


def _people(bench: Workbench, has_sex: bool, has_age: bool) -> list[str]:
    """Make `people` with sex and ten-year age band, where the table has them; their names."""
    age = "try_cast(CASE WHEN starts_with(age, '>') THEN '90' ELSE age END AS INTEGER)"
    columns = {"sex": "gender"} if has_sex else {}
    columns |= {"age_band": f"age_band({age})"} if has_age else {}
    selected = "".join(f", {sql} AS {name}" for name, sql in columns.items())
    bench.run(f"CREATE TABLE people AS SELECT DISTINCT patient, visit{selected} FROM stays")
    return list(columns)
