"""MEDS: events with a subject, a time and a code, in the standard's form (0.4) and in forms met in the wild.

MEDS knows no visit. The first rule that the data allow is taken and written into the card: a column with the id of a
visit, the time between admission and discharge, the calendar day.
"""

from __future__ import annotations

from pathlib import Path

from adapcla.data import Cohort, Kind
from adapcla.errors import InputError
from adapcla.files import read_json
from adapcla.io.codebook import Codebook, assembled, kind_named
from adapcla.io.contract import Options
from adapcla.io.courses import NO_DAY, make_courses
from adapcla.io.tables import Table, open_table
from adapcla.io.words import MARK, MARKED_ENDS, MARKED_KINDS, MIMIC_ENDS, MIMIC_KINDS
from adapcla.io.workbench import Workbench

_VISIT_COLUMNS = ("visit_id", "hadm_id", "encounter_id", "visit_occurrence_id")
#: Code systems of the form SYSTEM/CODE and what they code; others (race, insurance, …) are not read.
SYSTEM_DOMAINS = {
    "diagnosis": ("ICD9CM", "ICD10CM", "ICD9", "ICD10", "ICD10GM", "SNOMED", "CCS", "CCSR", "ICDO3", "READ"),
    "procedure": ("ICD9PROC", "ICD10PCS", "CPT4", "CPT", "HCPCS", "OPCS4", "OPS"),
    "drug": ("RXNORM", "NDC", "ATC", "DRUG", "RX", "CVX"),
    "lab": ("LAB", "LOINC", "VITAL"),
    "stay": (),
}
#: Events that an export of this project adds to the codes of a cohort.
ADMISSION, DISCHARGE, BIRTH, DEATH = "ADMISSION", "DISCHARGE", "MEDS_BIRTH", "MEDS_DEATH"
EVENTS = (ADMISSION, DISCHARGE, BIRTH, DEATH)
#: Before a word of a cohort's own: ADMISSION//inpatient, DISCHARGE//home.
WORD = "//"
_ADMITTED, _DISCHARGED = "HOSPITAL_ADMISSION", "HOSPITAL_DISCHARGE"
# Both grammars met in the wild, as SQL over `code`: KIND//ICD//9//CODE and SYSTEM/CODE.
_SYSTEM = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//9//%' THEN 'ICD9CM' WHEN code LIKE 'DIAGNOSIS//ICD//10//%' THEN 'ICD10CM'
    WHEN code LIKE 'PROCEDURE//ICD//9//%' THEN 'ICD9PROC' WHEN code LIKE 'PROCEDURE//ICD//10//%' THEN 'ICD10PCS'
    WHEN code LIKE 'MEDICATION//START//%' OR code LIKE 'MEDICATION//%//Administered' THEN 'DRUG'
    WHEN code LIKE 'LAB//%' THEN 'LAB'
    WHEN regexp_full_match(code, '[A-Za-z0-9]+/[^/].*') THEN split_part(code, '/', 1) ELSE '' END"""
_CODE = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//%' OR code LIKE 'PROCEDURE//ICD//%' THEN split_part(code, '//', 4)
    WHEN code LIKE 'MEDICATION//START//%' THEN name_token(split_part(code, '//', 3))
    WHEN code LIKE 'MEDICATION//%' THEN name_token(split_part(code, '//', 2))
    WHEN code LIKE 'LAB//%' THEN name_token(split_part(code, '//', 2))
    ELSE substr(code, strpos(code, '/') + 1) END"""
# What an admission or discharge says; own words carry a mark.
_WORD = f"""CASE WHEN starts_with(code, '{ADMISSION}{WORD}') OR starts_with(code, '{DISCHARGE}{WORD}')
    THEN '{MARK}' ELSE '' END || split_part(code, '{WORD}', 2)"""


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a MEDS dataset (a folder with `data/`) or in a single file of events."""
    table = _events_table(root)
    book = Codebook.beside(root)
    told = book is None and "stay" in options.domains
    card = {}
    with Workbench() as bench:
        if book is not None:
            _load_own(bench, table, book)
            rule = "one visit_id"
        else:
            _load_events(bench, table, options, root)
            rule, stays = _shape_visits(bench, table)
            _shape_people(bench)
            if told:
                deaths = f"SELECT patient, days_of(time) AS day FROM events WHERE starts_with(code, '{DEATH}')"
                card = {
                    "stays": make_courses(bench, stays, MIMIC_KINDS | MARKED_KINDS, MIMIC_ENDS | MARKED_ENDS, deaths)
                }
        return assembled(
            bench,
            book,
            source="meds",
            visit_rule=rule,
            options=options,
            attributes=("sex", "age_band"),
            results="lab" in options.domains,
            courses=told,
            card=card,
            path=root,
            kind=_kind(root),
        )


def _kind(root: Path) -> Kind:
    """What the dataset's own description says that its patients are."""
    try:
        return kind_named([str(read_json(root / "metadata" / "dataset.json").get("dataset_name"))])
    except InputError:
        return Kind.REAL


def _events_table(root: Path) -> Table:
    """The table of events; the standard's folder `data` is preferred."""
    if not root.exists():
        raise InputError("no such file or folder", path=root, expected="a MEDS dataset", remedy="check the path")
    table = open_table(root / "data" if (root / "data").is_dir() else root)
    for names in (("subject_id", "patient_id"), ("time", "timestamp"), ("code",)):
        table.column(*names)
    return table


def _columns(table: Table) -> dict[str, str]:
    """The columns to load, under fixed names."""
    columns = {"patient": table.column("subject_id", "patient_id"), "time": table.column("time", "timestamp")}
    columns["code"] = table.column("code")
    visit = table.first_of(*_VISIT_COLUMNS)
    return columns if visit is None else {**columns, "visit": visit}


def _load_own(bench: Workbench, table: Table, book: Codebook) -> None:
    """Load an export of this project: every code of a visit is an entry, every event without a time a fact."""
    value = {"value": "numeric_value"} if table.has("numeric_value") else {}
    bench.load("events", table, {**_columns(table), "visit": table.column("visit_id"), **value})
    bench.run(
        """CREATE VIEW visits AS SELECT patient, visit, time AS date, '' AS day, '' AS sequence FROM events
           WHERE visit <> ''"""
    )
    kinds, ends = f"{ADMISSION}{WORD}", f"{DISCHARGE}{WORD}"
    bench.run(
        f"""CREATE VIEW coded AS SELECT patient, visit, '' AS system, 'diagnosis' AS domain,
            CASE WHEN starts_with(code, '{kinds}') THEN 'KIND/' || substr(code, {len(kinds) + 1})
                 WHEN starts_with(code, '{ends}') THEN 'END/' || substr(code, {len(ends) + 1}) ELSE code END AS code,
            {"number_of(value)" if value else "CAST(NULL AS FLOAT)"} AS value, '' AS unit,
            CAST(NULL AS DOUBLE) AS moment FROM events WHERE time <> '' AND code NOT IN {EVENTS}"""
    )
    bench.run("CREATE VIEW entries AS SELECT patient, visit, code, system, domain FROM coded WHERE value IS NULL")
    bench.run("CREATE VIEW results AS SELECT * FROM coded WHERE value IS NOT NULL")
    book.make_people(bench, "SELECT patient, code AS key FROM events WHERE time = ''")


def _load_units(bench: Workbench, root: Path) -> None:
    """Make `listed`: the unit of each code, where the dataset's list of codes has a column for it."""
    path = root / "metadata" / "codes.parquet"
    table = open_table(path) if path.is_file() else None
    if table is None or not (table.has("code") and table.has("unit")):
        bench.run("CREATE TABLE listed (named VARCHAR, unit_listed VARCHAR)")
        return
    bench.load("listed", table, {"named": "code", "unit_listed": "unit"})


def _load_events(bench: Workbench, table: Table, options: Options, root: Path) -> None:
    """Make `events` (everything of use) and `coded` (the codes asked for, in their systems)."""
    systems = [name for domain in options.record_domains for name in SYSTEM_DOMAINS[domain]] or ["none"]
    listed = ", ".join(f"'{name}'" for name in systems)
    useful = f"""upper({_SYSTEM}) IN ({listed}) OR starts_with(code, '{_ADMITTED}')
        OR starts_with(code, '{_DISCHARGED}')
        OR starts_with(upper(code), 'GENDER') OR starts_with(code, 'MEDS_BIRTH')"""
    if "stay" in options.domains:
        useful += "".join(f" OR starts_with(code, '{name}')" for name in (ADMISSION, DISCHARGE, DEATH))
    value, unit = table.first_of("numeric_value", "value"), table.first_of("unit", "units")
    more = {"value": value, "unit": unit} if "lab" in options.domains else {}
    loaded = {**_columns(table), **{name: column for name, column in more.items() if column}}
    bench.load("events", table, loaded, where=useful)
    domain = " ".join(
        f"WHEN upper({_SYSTEM}) IN ({', '.join(repr(name) for name in names)}) THEN '{kind}'"
        for kind, names in SYSTEM_DOMAINS.items()
        if names
    )
    visit = "visit" if table.first_of(*_VISIT_COLUMNS) else "''"
    _load_units(bench, root)
    named = "CASE WHEN code LIKE 'LAB//%' THEN split_part(code, '//', 3) ELSE coalesce(unit_listed, '') END"
    unit_of = f"CASE WHEN unit <> '' THEN unit ELSE {named} END" if "unit" in loaded else named
    bench.run(
        f"""CREATE TABLE coded AS SELECT patient, time, {visit} AS visit, {_CODE} AS code, {_SYSTEM} AS system,
            CASE {domain} END AS domain, {"number_of(value)" if "value" in loaded else "CAST(NULL AS FLOAT)"} AS value,
            {unit_of} AS unit FROM events LEFT JOIN listed ON listed.named = events.code
            WHERE upper({_SYSTEM}) IN ({listed})"""
    )


def _shape_visits(bench: Workbench, table: Table) -> tuple[str, str]:
    """Make `visits`, `entries` and `results` by the first rule that the data allow; the rule in words, its stays."""
    column = table.first_of(*_VISIT_COLUMNS)
    told = "coded" if bench.number("SELECT count(*) FROM coded") else "events"
    if column is not None and bench.number(f"SELECT count(*) FROM {told} WHERE visit <> ''"):
        bench.run(
            """CREATE VIEW visits AS SELECT patient, visit, time AS date, '' AS day, '' AS sequence FROM events
               WHERE visit <> ''"""
        )
        bench.run("CREATE VIEW placed AS SELECT * FROM coded")
        begins, ends = (f"regexp_matches(code, '^(HOSPITAL_)?{name}')" for name in (ADMISSION, DISCHARGE))
        rule = f"one value of {column}; ordered by its first event"
        stays = f"""SELECT patient, visit, max({_WORD}) FILTER ({begins}) AS kind,
            max({_WORD}) FILTER ({ends}) AS ending, false AS died, min(days_of(time)) AS begins,
            max(days_of(time)) FILTER ({ends}) - min(days_of(time)) FILTER ({begins}) AS days
            FROM events WHERE visit <> '' GROUP BY patient, visit"""
    elif bench.number(f"SELECT count(*) FROM events WHERE starts_with(code, '{_DISCHARGED}')"):
        _shape_windows(bench)
        rule = "from hospital admission to discharge; ordered by the admission"
        stays = """SELECT patient, nth::VARCHAR AS visit, kind, ending, false AS died,
            epoch(begins) / 86400.0 AS begins, (epoch(ends) - epoch(begins)) / 86400.0 AS days FROM windows"""
    else:
        bench.run("CREATE VIEW placed AS SELECT * REPLACE (left(time, 10) AS visit) FROM coded")
        bench.run(
            """CREATE VIEW visits AS SELECT DISTINCT patient, left(time, 10) AS visit, left(time, 10) AS date,
               '' AS day, '' AS sequence FROM coded WHERE time <> ''"""
        )
        rule = "one calendar day; there is neither a visit id nor an admission"
        stays = f"""SELECT patient, visit, '' AS kind, '' AS ending, false AS died, days_of(date) AS begins,
            {NO_DAY} AS days FROM visits"""
    bench.run("CREATE VIEW entries AS SELECT patient, visit, code, system, domain FROM placed WHERE domain <> 'lab'")
    bench.run("CREATE VIEW results AS SELECT *, days_of(time) AS moment FROM placed WHERE domain = 'lab'")
    return rule, stays


def _shape_windows(bench: Workbench) -> None:
    """Make `visits` of admission–discharge pairs, and `placed` of the codes inside them.

    A patient's n-th admission belongs to the n-th discharge; where the numbers differ, a discharge ends the latest
    admission before it. A code belongs to the window that ends first at or after its time, because diagnoses carry
    the time of the discharge; one before every admission day, or after the last discharge, is left out and counted.
    """
    for name, prefix in (("admitted", _ADMITTED), ("discharged", _DISCHARGED)):
        bench.run(
            f"""CREATE TABLE {name} AS SELECT patient, try_cast(time AS TIMESTAMP) AS at, {_WORD} AS word,
                row_number() OVER (PARTITION BY patient ORDER BY try_cast(time AS TIMESTAMP)) AS nth,
                count(*) OVER (PARTITION BY patient) AS n
                FROM events WHERE starts_with(code, '{prefix}') AND try_cast(time AS TIMESTAMP) IS NOT NULL"""
        )
    bench.run(
        """CREATE TABLE windows AS
           SELECT d.patient, a.at AS begins, d.at AS ends, d.nth, a.word AS kind, d.word AS ending FROM discharged d
           JOIN admitted a ON a.patient = d.patient AND a.nth = d.nth AND a.n = d.n
           UNION ALL
           SELECT d.patient, a.at, d.at, d.nth, a.word, d.word FROM (
               SELECT * FROM discharged d WHERE NOT EXISTS (
                   SELECT 1 FROM admitted x WHERE x.patient = d.patient AND x.n = d.n)
           ) d ASOF JOIN admitted a ON a.patient = d.patient AND a.at <= d.at"""
    )
    bench.run(
        """CREATE VIEW visits AS SELECT patient, nth::VARCHAR AS visit, begins::VARCHAR AS date, '' AS day,
           '' AS sequence FROM windows"""
    )
    bench.run(
        """CREATE TABLE placed AS SELECT c.* REPLACE (w.nth::VARCHAR AS visit)
           FROM (SELECT *, try_cast(time AS TIMESTAMP) AS at FROM coded) c
           ASOF JOIN windows w ON w.patient = c.patient AND c.at <= w.ends
           WHERE c.at >= date_trunc('day', w.begins)"""
    )
    for what, where in (("codes", "domain <> 'lab'"), ("values", "domain = 'lab'")):
        n, inside = (bench.number(f"SELECT count(*) FROM {name} WHERE {where}") for name in ("coded", "placed"))
        bench.drop(f"{what} outside every admission", n - inside)


def _shape_people(bench: Workbench) -> None:
    """Make `people`: sex from GENDER//…, age band at the first visit from MEDS_BIRTH."""
    bench.run(
        """CREATE TABLE people AS SELECT e.patient, '' AS visit,
           coalesce(max(CASE WHEN starts_with(upper(e.code), 'GENDER')
               THEN left(upper(regexp_extract(e.code, '[^/]+$')), 1) END), '') AS sex,
           coalesce(age_band(datesub('year', DATE '1970-01-01' + CAST(floor(min(days_of(e.time))
               FILTER (starts_with(e.code, 'MEDS_BIRTH'))) AS INTEGER),
               DATE '1970-01-01' + CAST(floor(any_value(f.first_day)) AS INTEGER))), '') AS age_band
           FROM events e JOIN (SELECT patient, min(days_of(date)) AS first_day FROM visits GROUP BY patient) f
           ON f.patient = e.patient
           WHERE starts_with(upper(e.code), 'GENDER') OR starts_with(e.code, 'MEDS_BIRTH') GROUP BY e.patient"""
    )
