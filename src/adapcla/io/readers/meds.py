"""MEDS: events with a subject, a time and a code, in the standard's form (0.4) and in forms met in the wild.

MEDS knows no visit. The first rule that the data allow is taken and written into the card: a column with the id of a
visit, the time between admission and discharge, the calendar day.
"""

from __future__ import annotations

from pathlib import Path

from adapcla.data import Kind
from adapcla.errors import InputError
from adapcla.files import read_json
from adapcla.io.assemble import SourceTables
from adapcla.io.codebook import kind_named
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions
from adapcla.io.tables import Table, open_table
from adapcla.io.visit_terms import END_TOKENS, KIND_TOKENS, MIMIC_ENDS, MIMIC_KINDS

_VISIT_COLUMNS = ("visit_id", "hadm_id", "encounter_id", "visit_occurrence_id")
#: Code systems of the form SYSTEM/CODE and what they code; others (race, insurance, …) are not read.
SYSTEM_DOMAINS = {
    "diagnosis": ("ICD9CM", "ICD10CM", "ICD9", "ICD10", "ICD10GM", "SNOMED", "CCS", "CCSR", "ICDO3", "READ"),
    "procedure": ("ICD9PROC", "ICD10PCS", "CPT4", "CPT", "HCPCS", "OPCS4", "OPS"),
    "drug": ("RXNORM", "NDC", "ATC", "DRUG", "RX", "CVX"),
    "lab": ("LAB", "LOINC", "VITAL"),
    "stay": (),
}
_ADMITTED, _DISCHARGED = "HOSPITAL_ADMISSION", "HOSPITAL_DISCHARGE"
#: Events that an export of this project adds to the codes of a cohort; `ADMISSION//inpatient` is its kind of visit.
_OWN = ("ADMISSION", "DISCHARGE", "MEDS_DEATH")
# Both grammars met in the wild, as SQL over `code`: KIND//ICD//9//CODE and SYSTEM/CODE.
_SYSTEM = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//9//%' THEN 'ICD9CM' WHEN code LIKE 'DIAGNOSIS//ICD//10//%' THEN 'ICD10CM'
    WHEN code LIKE 'PROCEDURE//ICD//9//%' THEN 'ICD9PROC' WHEN code LIKE 'PROCEDURE//ICD//10//%' THEN 'ICD10PCS'
    WHEN code LIKE 'MEDICATION//START//%' OR code LIKE 'MEDICATION//%//Administered' THEN 'DRUG'
    WHEN code LIKE 'LAB//%' THEN 'LAB'
    WHEN regexp_full_match(code, '[A-Za-z0-9]+/[^/].*') THEN split_part(code, '/', 1) ELSE '' END"""
_CODE = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//%' OR code LIKE 'PROCEDURE//ICD//%' THEN split_part(code, '//', 4)
    WHEN code LIKE 'MEDICATION//START//%' THEN split_part(code, '//', 3)
    WHEN code LIKE 'MEDICATION//%' THEN split_part(code, '//', 2)
    WHEN code LIKE 'LAB//%' THEN split_part(code, '//', 2)
    ELSE substr(code, strpos(code, '/') + 1) END"""
# What an admission or discharge says: of an export of this project its own name, of others their word.
_WORD = """CASE WHEN starts_with(code, 'ADMISSION//') THEN 'KIND/' WHEN starts_with(code, 'DISCHARGE//') THEN 'END/'
    ELSE '' END || split_part(code, '//', 2)"""
_NO_TIMES = "'' AS kind, '' AS discharge, false AS died, CAST(NULL AS DOUBLE) AS length_days"


def read_meds(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a MEDS dataset (a folder with `data/`) or a single file of events holds."""
    table = _events_table(path)
    _load_events(db, table, options, path)
    rule, visits, events = _visits_and_events(db, table)
    return SourceTables(
        visits=visits,
        events=events,
        visit_rule=rule,
        patients="""SELECT patient, '' AS visit,
            CASE WHEN starts_with(upper(code), 'GENDER') THEN regexp_extract(code, '[^/]+$') ELSE '' END AS sex,
            CASE WHEN starts_with(code, 'MEDS_BIRTH') THEN time ELSE '' END AS birth, '' AS age,
            CASE WHEN starts_with(code, 'MEDS_DEATH') THEN time ELSE '' END AS death FROM events
            WHERE starts_with(upper(code), 'GENDER') OR starts_with(code, 'MEDS_BIRTH')
            OR starts_with(code, 'MEDS_DEATH')""",
        known=("sex", "age_band"),
        kind_terms=MIMIC_KINDS | KIND_TOKENS,
        discharge_terms=MIMIC_ENDS | END_TOKENS,
        origin=_origin(path),
    )


def _origin(path: Path) -> Kind:
    """What the dataset's own description says that its patients are."""
    try:
        return kind_named([str(read_json(path / "metadata" / "dataset.json").get("dataset_name"))])
    except InputError:
        return Kind.REAL


def _events_table(path: Path) -> Table:
    """The table of events; the standard's folder `data` is preferred."""
    if not path.exists():
        raise InputError("no such file or folder", path=path, expected="a MEDS dataset", remedy="check the path")
    table = open_table(path / "data" if (path / "data").is_dir() else path)
    for names in (("subject_id", "patient_id"), ("time", "timestamp"), ("code",)):
        table.column(*names)
    return table


def _load_events(db: Database, table: Table, options: ReadOptions, path: Path) -> None:
    """Make `events` (everything of use) and the view `coded_events` (the codes asked for, in their systems)."""
    systems = [name for domain in options.record_domains for name in SYSTEM_DOMAINS[domain]] or ["none"]
    listed = ", ".join(f"'{name}'" for name in systems)
    beginnings = [_ADMITTED, _DISCHARGED, "GENDER", "MEDS_BIRTH", *(_OWN if "stay" in options.domains else ())]
    useful = " OR ".join(f"starts_with(upper(code), '{name}')" for name in beginnings)
    columns = {"patient": table.column("subject_id", "patient_id"), "time": table.column("time", "timestamp")}
    numbers = ("numeric_value", "value") if "lab" in options.domains else ()
    db.load(
        "events",
        table,
        {**columns, "code": table.column("code")},
        optional={"visit": _VISIT_COLUMNS, "value": numbers, "unit": ("unit", "units") if numbers else ()},
        where=f"upper({_SYSTEM}) IN ({listed}) OR {useful}",
    )
    units = path / "metadata" / "codes.parquet"
    codes = open_table(units) if units.is_file() else None
    if codes is not None and codes.has("code") and codes.has("unit"):
        db.load("listed", codes, {"named": "code", "unit_listed": "unit"})
    else:
        db.run("CREATE TABLE listed (named VARCHAR, unit_listed VARCHAR)")
    domain = " ".join(
        f"WHEN upper({_SYSTEM}) IN ({', '.join(repr(name) for name in names)}) THEN '{kind}'"
        for kind, names in SYSTEM_DOMAINS.items()
        if names
    )
    db.run(
        f"""CREATE VIEW coded_events AS SELECT patient, visit, time, {_SYSTEM} AS system, {_CODE} AS code,
            CASE {domain} END AS domain, domain = 'lab' AS measured, value,
            CASE WHEN unit <> '' THEN unit WHEN code LIKE 'LAB//%' THEN split_part(code, '//', 3)
                ELSE coalesce(unit_listed, '') END AS unit
            FROM events LEFT JOIN listed ON listed.named = events.code WHERE upper({_SYSTEM}) IN ({listed})"""
    )


def _visits_and_events(db: Database, table: Table) -> tuple[str, str, str]:
    """The first rule that the data allow, in words, with its visits and events."""
    column = table.first_of(*_VISIT_COLUMNS)
    events = "coded_events" if db.number("SELECT count(*) FROM coded_events") else "events"
    if column is not None and db.number(f"SELECT count(*) FROM {events} WHERE visit <> ''"):
        begins, ends = (f"regexp_matches(code, '^(HOSPITAL_)?{name}')" for name in _OWN[:2])
        visits = f"""SELECT patient, visit, time AS start, '' AS "end", '' AS day, '' AS sequence, {_NO_TIMES}
            FROM events WHERE visit <> '' UNION ALL
            SELECT patient, visit, '', '', '', '', max({_WORD}) FILTER ({begins}), max({_WORD}) FILTER ({ends}), false,
            max(days_of(time)) FILTER ({ends}) - min(days_of(time)) FILTER ({begins})
            FROM events WHERE visit <> '' GROUP BY patient, visit"""
        return f"one value of {column}; ordered by its first event", visits, "SELECT * FROM coded_events"
    if db.number(f"SELECT count(*) FROM events WHERE starts_with(code, '{_DISCHARGED}')"):
        _make_windows(db)
        visits = """SELECT patient, nth::VARCHAR AS visit, begins::VARCHAR AS start, ends::VARCHAR AS "end", '' AS day,
            '' AS sequence, kind, discharge, false AS died,
            (epoch(ends) - epoch(begins)) / 86400.0 AS length_days FROM windows"""
        return "from hospital admission to discharge; ordered by the admission", visits, "SELECT * FROM inside"
    visits = f"""SELECT DISTINCT patient, left(time, 10) AS visit, left(time, 10) AS start, '' AS "end", '' AS day,
        '' AS sequence, {_NO_TIMES} FROM coded_events WHERE time <> ''"""
    rule = "one calendar day; there is neither a visit id nor an admission"
    return rule, visits, "SELECT * REPLACE (left(time, 10) AS visit) FROM coded_events"


def _make_windows(db: Database) -> None:
    """Make `windows` of admission–discharge pairs, and `inside` of the codes inside them.

    A patient's n-th admission belongs to the n-th discharge; where the numbers differ, a discharge ends the latest
    admission before it. A code belongs to the window that ends first at or after its time, because diagnoses carry
    the time of the discharge; one before every admission day, or after the last discharge, is left out and counted.
    """
    for name, prefix in (("admitted", _ADMITTED), ("discharged", _DISCHARGED)):
        db.run(
            f"""CREATE TABLE {name} AS SELECT patient, try_cast(time AS TIMESTAMP) AS moment, {_WORD} AS word,
                row_number() OVER (PARTITION BY patient ORDER BY try_cast(time AS TIMESTAMP), code) AS nth,
                count(*) OVER (PARTITION BY patient) AS n
                FROM events WHERE starts_with(code, '{prefix}') AND try_cast(time AS TIMESTAMP) IS NOT NULL"""
        )
    db.run(
        """CREATE TABLE windows AS
           SELECT d.patient, a.moment AS begins, d.moment AS ends, d.nth, a.word AS kind, d.word AS discharge
           FROM discharged d
           JOIN admitted a ON a.patient = d.patient AND a.nth = d.nth AND a.n = d.n
           UNION ALL
           SELECT d.patient, a.moment, d.moment, d.nth, a.word, d.word FROM (
               SELECT * FROM discharged d WHERE NOT EXISTS (
                   SELECT 1 FROM admitted x WHERE x.patient = d.patient AND x.n = d.n)
           ) d ASOF JOIN admitted a ON a.patient = d.patient AND a.moment <= d.moment"""
    )
    db.run(
        """CREATE TABLE inside AS SELECT c.* EXCLUDE (moment) REPLACE (w.nth::VARCHAR AS visit)
           FROM (SELECT *, try_cast(time AS TIMESTAMP) AS moment FROM coded_events) c
           ASOF JOIN windows w ON w.patient = c.patient AND c.moment <= w.ends
           WHERE c.moment >= date_trunc('day', w.begins)"""
    )
    for what, where in (("codes", "NOT measured"), ("values", "measured")):
        n, left = (db.number(f"SELECT count(*) FROM {name} WHERE {where}") for name in ("coded_events", "inside"))
        db.drop(f"{what} outside every admission", n - left)
