"""Tables of a hospital with admissions: what the sources of that shape share."""

from __future__ import annotations

from pathlib import Path

from adapcla.io.courses import NO_DAY, make_courses
from adapcla.io.tables import Table, find_table
from adapcla.io.words import MIMIC_ENDS, MIMIC_KINDS
from adapcla.io.workbench import Workbench

#: A visit in these sources, for the card.
VISIT_RULE = "one hospital admission (hadm_id); ordered by admittime, then hadm_id"


def load_visits(bench: Workbench, admissions: Table) -> None:
    """Make `visits`, one row per admission."""
    columns = {"patient": "subject_id", "visit": "hadm_id", "date": "admittime"}
    bench.load("admissions", admissions, columns)
    bench.run("CREATE VIEW visits AS SELECT patient, visit, date, '' AS day, '' AS sequence FROM admissions")
    bench.run("CREATE TABLE entries (patient VARCHAR, visit VARCHAR, code VARCHAR, system VARCHAR, domain VARCHAR)")


def load_codes(
    bench: Workbench, table: Table, code: str, domain: str, *, system: str = "''", extra: dict[str, str] | None = None
) -> None:
    """Add the rows of a table of codes to `entries`.

    Args:
        bench: Where `entries` is.
        table: Holds subject_id, hadm_id and codes.
        code: The code column of the table.
        domain: The domain of all its codes.
        system: SQL for the code system; may use the columns `code` and those of `extra`.
        extra: More columns to load: name in SQL → column of the table.
    """
    bench.load("coded", table, {"patient": "subject_id", "visit": "hadm_id", "code": code, **(extra or {})})
    bench.run(f"INSERT INTO entries SELECT patient, visit, code, {system} AS system, '{domain}' FROM coded")
    bench.run("DROP TABLE coded")


def load_drugs(bench: Workbench, table: Table) -> tuple[dict[str, int], dict[tuple[str, str], str]]:
    """Add prescriptions to `entries`, by NDC where there is one, else by name; row counts, and names of drugs."""
    columns = {"patient": "subject_id", "visit": "hadm_id", "ndc": "ndc", "drug": "drug"}
    bench.load("prescribed", table, columns)
    coded = "(regexp_full_match(ndc, '[0-9]{4,}') AND NOT regexp_full_match(ndc, '0+'))"
    bench.run(
        f"""CREATE TABLE drugs AS SELECT patient, visit, drug, CASE WHEN {coded} THEN 'NDC' ELSE 'DRUG' END AS system,
            CASE WHEN {coded} THEN ndc ELSE name_token(lower(drug)) END AS code FROM prescribed"""
    )
    bench.run("INSERT INTO entries SELECT patient, visit, code, system, 'drug' FROM drugs")
    named = bench.query("SELECT system, code, min(drug) FROM drugs WHERE drug <> '' GROUP BY system, code")
    by_code, by_name = bench.query(
        "SELECT count(*) FILTER (system = 'NDC'), count(*) FILTER (system = 'DRUG') FROM drugs"
    )[0]
    counts = {"rows by NDC": by_code, "rows by name, written as a code": by_name}
    return counts, {(system, code): name for system, code, name in named}


def load_stays(bench: Workbench, table: Table) -> dict[str, int]:
    """Make `courses` from the table of admissions: type, discharge, death and length; words that are not known."""
    optional = ("dischtime", "deathtime", "admission_type", "discharge_location", "hospital_expire_flag")
    there = {name: name for name in optional if table.has(name)}
    bench.load("admitted", table, {"patient": "subject_id", "visit": "hadm_id", "date": "admittime", **there})
    column = {name: name if name in there else "''" for name in optional}
    ends = f"days_of({column['dischtime']})" if "dischtime" in there else NO_DAY
    return make_courses(
        bench,
        f"""SELECT patient, visit, {column["admission_type"]} AS kind, {column["discharge_location"]} AS ending,
            {column["deathtime"]} <> '' OR {column["hospital_expire_flag"]} = '1' AS died,
            days_of(date) AS begins, {ends} - days_of(date) AS days FROM admitted""",
        MIMIC_KINDS,
        MIMIC_ENDS,
    )


def load_labs(bench: Workbench, table: Table, items: Table | None) -> dict[tuple[str, str], str]:
    """Make `results` from the table of lab events, which may be longer than memory; the names of labs."""
    columns = {"patient": "subject_id", "visit": "hadm_id", "code": "itemid"}
    columns |= {"value": "valuenum", "unit": "valueuom", "date": "charttime"}
    # Identifiers are whole numbers that some copies write as 12.0.
    whole = r"regexp_replace({}, '\.0+$', '')"
    select = f"""patient, {whole.format("visit")} AS visit, {whole.format("code")} AS code, number_of(value) AS value,
        unit, days_of(date) AS moment"""
    bench.load("lab_rows", table, columns, select=select)
    bench.run("CREATE VIEW results AS SELECT *, 'LAB' AS system, 'lab' AS domain FROM lab_rows")
    if items is None:
        return {}
    bench.load("lab_items", items, {"code": "itemid", "label": "label", "fluid": "fluid"})
    named = bench.query("SELECT code, label || CASE fluid WHEN '' THEN '' ELSE ', ' || fluid END FROM lab_items")
    return {("LAB", code): name for code, name in named}


def load_people(bench: Workbench, patients: Table, columns: dict[str, str], age: str) -> tuple[str, ...]:
    """Make `people` with sex and age band at the first admission; the names of these attributes.

    Args:
        bench: Holds `admissions`.
        patients: Holds subject_id and gender.
        columns: More columns to load: name in SQL → column of the table.
        age: SQL for the age in years at `first_day`, the day of the first admission.
    """
    bench.load("patients", patients, {"patient": "subject_id", "gender": "gender", **columns})
    bench.run(
        f"""CREATE TABLE people AS SELECT p.patient, '' AS visit, upper(gender) AS sex, age_band({age}) AS age_band
            FROM patients p LEFT JOIN (
                SELECT patient, min(days_of(date)) AS first_day FROM admissions GROUP BY patient
            ) a ON a.patient = p.patient"""
    )
    bench.drop(
        "patients without an admission",
        bench.number(
            "SELECT count(DISTINCT p.patient) FROM patients p ANTI JOIN admissions a ON a.patient = p.patient"
        ),
    )
    return ("sex", "age_band")


def titles(root: Path, name: str, system: str) -> dict[tuple[str, str], str]:
    """(system, code) → long title, from a dictionary table of ICD-9 codes if the folder holds one."""
    table = find_table(root, name)
    if table is None or not (table.has("icd9_code") and table.has("long_title")):
        return {}
    out: dict[tuple[str, str], str] = {}
    for batch in table.batches({"code": "icd9_code", "title": "long_title"}):
        codes, long_titles = (column.to_pylist() for column in batch.columns)
        out.update({(system, code.strip()): title for code, title in zip(codes, long_titles, strict=True)})
    return out
