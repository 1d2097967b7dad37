"""MEDS: events with a subject, a time and a code, in the standard's form (0.4) and in forms met in the wild.

MEDS knows no visit. The first rule that the data allow is taken and written into the card: a column with the id of a
visit, the time between admission and discharge, the calendar day.
"""

from __future__ import annotations

from pathlib import Path

from adapcla.errors import InputError
from adapcla.files import read_json
from adapcla.records import Cohort, Kind
from adapcla.sources.codebook import Codebook, assembled, kind_named
from adapcla.sources.contract import Options
from adapcla.sources.tables import Table, open_table
from adapcla.sources.workbench import Workbench

_VISIT_COLUMNS = ("visit_id", "hadm_id", "encounter_id", "visit_occurrence_id")
#: Code systems of the form SYSTEM/CODE and what they code; others (laboratory, race, …) are not read.
SYSTEM_DOMAINS = {
    "diagnosis": ("ICD9CM", "ICD10CM", "ICD9", "ICD10", "ICD10GM", "SNOMED", "CCS", "CCSR", "ICDO3", "READ"),
    "procedure": ("ICD9PROC", "ICD10PCS", "CPT4", "CPT", "HCPCS", "OPCS4", "OPS"),
    "drug": ("RXNORM", "NDC", "ATC", "DRUG", "RX", "CVX"),
}
#: Events that an export of this project adds to the codes of a cohort.
ADMISSION, DISCHARGE, BIRTH, DEATH = "ADMISSION", "DISCHARGE", "MEDS_BIRTH", "MEDS_DEATH"
EVENTS = (ADMISSION, DISCHARGE, BIRTH, DEATH)
_ADMITTED, _DISCHARGED = "HOSPITAL_ADMISSION", "HOSPITAL_DISCHARGE"
# Both grammars met in the wild, as SQL over `code`: KIND//ICD//9//CODE and SYSTEM/CODE.
_SYSTEM = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//9//%' THEN 'ICD9CM' WHEN code LIKE 'DIAGNOSIS//ICD//10//%' THEN 'ICD10CM'
    WHEN code LIKE 'PROCEDURE//ICD//9//%' THEN 'ICD9PROC' WHEN code LIKE 'PROCEDURE//ICD//10//%' THEN 'ICD10PCS'
    WHEN code LIKE 'MEDICATION//START//%' OR code LIKE 'MEDICATION//%//Administered' THEN 'DRUG'
    WHEN regexp_full_match(code, '[A-Za-z0-9]+/[^/].*') THEN split_part(code, '/', 1) ELSE '' END"""
_CODE = """CASE
    WHEN code LIKE 'DIAGNOSIS//ICD//%' OR code LIKE 'PROCEDURE//ICD//%' THEN split_part(code, '//', 4)
    WHEN code LIKE 'MEDICATION//START//%' THEN name_token(split_part(code, '//', 3))
    WHEN code LIKE 'MEDICATION//%' THEN name_token(split_part(code, '//', 2))
    ELSE substr(code, strpos(code, '/') + 1) END"""


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a MEDS dataset (a folder with `data/`) or in a single file of events."""
    table = _events_table(root)
    book = Codebook.beside(root)
    with Workbench() as bench:
        if book is not None:
            _load_own(bench, table, book)
            rule = "one visit_id"
        else:
            _load_events(bench, table, options)
            rule = _shape_visits(bench, table)
            _shape_people(bench)
        return assembled(
            bench,
            book,
            source="meds",
            visit_rule=rule,
            options=options,
            attributes=("sex", "age_band"),
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
    bench.load("events", table, {**_columns(table), "visit": table.column("visit_id")})
    bench.run(
        """CREATE VIEW visits AS SELECT patient, visit, time AS date, '' AS day, '' AS sequence FROM events
           WHERE visit <> ''"""
    )
    bench.run(
        f"""CREATE VIEW entries AS SELECT patient, visit, code, '' AS system, 'diagnosis' AS domain FROM events
            WHERE time <> '' AND code NOT IN {EVENTS}"""
    )
    book.make_people(bench, "SELECT patient, code AS key FROM events WHERE time = ''")


def _load_events(bench: Workbench, table: Table, options: Options) -> None:
    """Make `events` (everything of use) and `coded` (the codes asked for, in their systems)."""
    systems = [name for domain in options.record_domains for name in SYSTEM_DOMAINS[domain]]
    listed = ", ".join(f"'{name}'" for name in systems)
    useful = f"""upper({_SYSTEM}) IN ({listed}) OR starts_with(code, '{_ADMITTED}')
        OR starts_with(code, '{_DISCHARGED}')
        OR starts_with(upper(code), 'GENDER') OR starts_with(code, 'MEDS_BIRTH')"""
    bench.load("events", table, _columns(table), where=useful)
    domain = " ".join(
        f"WHEN upper({_SYSTEM}) IN ({', '.join(repr(name) for name in names)}) THEN '{kind}'"
        for kind, names in SYSTEM_DOMAINS.items()
    )
    visit = "visit" if table.first_of(*_VISIT_COLUMNS) else "''"
    bench.run(
        f"""CREATE TABLE coded AS SELECT patient, time, {visit} AS visit, {_CODE} AS code, {_SYSTEM} AS system,
            CASE {domain} END AS domain FROM events WHERE upper({_SYSTEM}) IN ({listed})"""
    )


def _shape_visits(bench: Workbench, table: Table) -> str:
    """Make `visits` and `entries` by the first rule that the data allow; the rule in words."""
    column = table.first_of(*_VISIT_COLUMNS)
    if column is not None and bench.number("SELECT count(*) FROM coded WHERE visit <> ''"):
        bench.run(
            """CREATE VIEW visits AS SELECT patient, visit, time AS date, '' AS day, '' AS sequence FROM events
               WHERE visit <> ''"""
        )
        bench.run("CREATE VIEW entries AS SELECT patient, visit, code, system, domain FROM coded")
        return f"one value of {column}; ordered by its first event"
    if bench.number(f"SELECT count(*) FROM events WHERE starts_with(code, '{_DISCHARGED}')"):
        _shape_windows(bench)
        return "from hospital admission to discharge; ordered by the admission"
    bench.run("""CREATE VIEW entries AS SELECT patient, left(time, 10) AS visit, code, system, domain FROM coded""")
    bench.run(
        """CREATE VIEW visits AS SELECT DISTINCT patient, left(time, 10) AS visit, left(time, 10) AS date, '' AS day,
           '' AS sequence FROM coded WHERE time <> ''"""
    )
    return "one calendar day; there is neither a visit id nor an admission"


def _shape_windows(bench: Workbench) -> None:
    """Make `visits` of admission–discharge pairs, and `entries` of the codes inside them.

    A patient's n-th admission belongs to the n-th discharge; where the numbers differ, a discharge ends the latest
    admission before it. A code belongs to the window that ends first at or after its time, because diagnoses carry
    the time of the discharge; one before every admission day, or after the last discharge, is left out and counted.
    """
    for name, prefix in (("admitted", _ADMITTED), ("discharged", _DISCHARGED)):
        bench.run(
            f"""CREATE TABLE {name} AS SELECT patient, try_cast(time AS TIMESTAMP) AS at,
                row_number() OVER (PARTITION BY patient ORDER BY try_cast(time AS TIMESTAMP)) AS nth,
                count(*) OVER (PARTITION BY patient) AS n
                FROM events WHERE starts_with(code, '{prefix}') AND try_cast(time AS TIMESTAMP) IS NOT NULL"""
        )
    bench.run(
        """CREATE TABLE windows AS
           SELECT d.patient, a.at AS begins, d.at AS ends, d.nth FROM discharged d
           JOIN admitted a ON a.patient = d.patient AND a.nth = d.nth AND a.n = d.n
           UNION ALL
           SELECT d.patient, a.at, d.at, d.nth FROM (
               SELECT * FROM discharged d WHERE NOT EXISTS (
                   SELECT 1 FROM admitted x WHERE x.patient = d.patient AND x.n = d.n)
           ) d ASOF JOIN admitted a ON a.patient = d.patient AND a.at <= d.at"""
    )
    bench.run(
        """CREATE VIEW visits AS SELECT patient, nth::VARCHAR AS visit, begins::VARCHAR AS date, '' AS day,
           '' AS sequence FROM windows"""
    )
    bench.run(
        """CREATE TABLE entries AS SELECT c.patient, w.nth::VARCHAR AS visit, c.code, c.system, c.domain
           FROM (SELECT *, try_cast(time AS TIMESTAMP) AS at FROM coded) c
           ASOF JOIN windows w ON w.patient = c.patient AND c.at <= w.ends
           WHERE c.at >= date_trunc('day', w.begins)"""
    )
    outside = bench.number("SELECT count(*) FROM coded") - bench.number("SELECT count(*) FROM entries")
    bench.drop("codes outside every admission", outside)


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
