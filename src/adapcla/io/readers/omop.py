"""OMOP common data model (5.4, and what is older and alike): visits with codes, measurements and stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapcla.data import Cohort, Kind
from adapcla.io.codebook import Codebook, assembled, kind_named
from adapcla.io.contract import Options
from adapcla.io.courses import make_courses
from adapcla.io.stays import VISIT_RULE, n_by_day, shape_visits
from adapcla.io.tables import Table, find_table, need_table
from adapcla.io.words import MARK, MARKED_ENDS, MARKED_KINDS, OMOP_ENDS, OMOP_KINDS
from adapcla.io.workbench import Workbench

#: Domain → table, stem of its columns, its date columns, domain of a vocabulary.
_TABLES = {
    "dx": ("condition_occurrence", "condition", ("condition_start_date", "condition_start_datetime"), "diagnosis"),
    "px": ("procedure_occurrence", "procedure", ("procedure_date", "procedure_datetime"), "procedure"),
    "rx": ("drug_exposure", "drug", ("drug_exposure_start_date", "drug_exposure_start_datetime"), "drug"),
    "lab": ("measurement", "measurement", ("measurement_datetime", "measurement_date"), "lab"),
}
#: The tables that an export of this project may hold beside those.
_MORE = (
    ("observation", "observation", ("observation_date",), "other"),
    ("device_exposure", "device", ("device_exposure_start_date",), "other"),
)
#: Operators that say that a value is the value, not a bound of it.
_EQUAL = ("", "0", "4172703")
# Identifiers are whole numbers that some exports write as 12.0; a concept of 0 means "none".
_ID = r"regexp_replace({}, '\.0+$', '')"


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with visit_occurrence and the tables of the domains asked for."""
    book = Codebook.beside(root)
    with Workbench() as bench:
        bench.run(
            """CREATE TABLE coded (patient VARCHAR, visit VARCHAR, date VARCHAR, concept VARCHAR, value VARCHAR,
               domain VARCHAR, number FLOAT, unit VARCHAR, unit_concept VARCHAR)"""
        )
        asked = [domain for domain in _TABLES if book is not None or domain in options.domains]
        for table in [_TABLES[domain] for domain in asked] + list(_MORE if book is not None else ()):
            _load_codes(bench, need_table(root, table[0]), *table[1:])
        card, descriptions = _name_codes(bench, root, options) if book is None else ({}, {})
        _load_stays(bench, need_table(root, "visit_occurrence"))
        if book is not None:
            _own_codes(bench, book)
        shape_visits(bench, results=book is not None or "lab" in options.domains)
        told = book is None and "stay" in options.domains
        if told:
            card["stays"] = _load_courses(bench, find_table(root, "death"))
        attributes = _shape_people(bench, need_table(root, "person")) if book is None else ()
        return assembled(
            bench,
            book,
            source="omop",
            visit_rule=VISIT_RULE.format("visit_occurrence_id"),
            options=options,
            attributes=attributes,
            descriptions=descriptions,
            results="lab" in options.domains,
            courses=told,
            card={**card, "codes without a visit, by day": n_by_day(bench)},
            path=root,
            kind=_kind(bench, find_table(root, "cdm_source")),
        )


def _kind(bench: Workbench, table: Table | None) -> Kind:
    """What cdm_source says that the patients are."""
    name = None if table is None else table.first_of("cdm_source_name")
    if table is None or name is None:
        return Kind.REAL
    bench.load("cdm_source", table, {"name": name})
    return kind_named([name for (name,) in bench.query("SELECT name FROM cdm_source")])


def _load(
    bench: Workbench, name: str, table: Table, needed: dict[str, str], optional: Mapping[str, tuple[str, ...]]
) -> None:
    """Make table `name`; an optional column that the file lacks is empty text."""
    columns = {new: table.first_of(*old) for new, old in optional.items()}
    bench.load(f"{name}_file", table, {**needed, **{new: old for new, old in columns.items() if old}})
    absent = "".join(f", '' AS {new}" for new, old in columns.items() if not old)
    bench.run(f"CREATE VIEW {name} AS SELECT *{absent} FROM {name}_file")


def _load_codes(bench: Workbench, table: Table, stem: str, dates: tuple[str, ...], domain: str) -> None:
    """Add the rows of one table to `coded`; the source's own concept goes before the standard one."""
    _load(
        bench,
        f"rows_{stem}",
        table,
        {"patient": "person_id", "standard": f"{stem}_concept_id"},
        {
            "own": (f"{stem}_source_concept_id",),
            "value": (f"{stem}_source_value",),
            "visit": ("visit_occurrence_id",),
            "date": dates,
            "number": ("value_as_number",),
            "unit": ("unit_source_value",),
            "unit_concept": ("unit_concept_id",),
            "operator": ("operator_concept_id",),
        },
    )
    own, standard, visit = _ID.format("own"), _ID.format("standard"), _ID.format("visit")
    bench.run(
        f"""INSERT INTO coded SELECT {_ID.format("patient")}, CASE WHEN {visit} = '0' THEN '' ELSE {visit} END, date,
            CASE WHEN {own} NOT IN ('', '0') THEN {own} WHEN {standard} <> '0' THEN {standard} ELSE '' END,
            value, '{domain}', CASE WHEN {_ID.format("operator")} IN {_EQUAL} THEN number_of(number) END, unit,
            {_ID.format("unit_concept")} FROM rows_{stem}"""
    )
    bench.run(f"DROP VIEW rows_{stem}")
    bench.run(f"DROP TABLE rows_{stem}_file")


def _name_codes(bench: Workbench, root: Path, options: Options) -> tuple[dict[str, Any], dict[tuple[str, str], str]]:
    """Make `named`, with system and code of each row by the concept table; how the codes were named, their names."""
    table = find_table(root, "concept")
    columns = {"id": "concept_id", "system": "vocabulary_id", "code": "concept_code", "name": "concept_name"}
    if table is None:
        bench.run("CREATE TABLE concepts (id VARCHAR, system VARCHAR, code VARCHAR, name VARCHAR)")
    else:
        used = "SELECT concept FROM coded UNION SELECT unit_concept FROM coded"
        needed = f"{_ID.format('id')} IN ({used})"
        bench.load("concept_rows", table, columns, where=needed)
        bench.run(
            f"""CREATE TABLE concepts AS SELECT {_ID.format("id")} AS id, code, min(name) AS name,
                regexp_replace(system, '[^A-Za-z0-9._-]+', '-', 'g') AS system FROM concept_rows GROUP BY ALL"""
        )
    system = options.system.replace("'", "''")
    bench.run(
        f"""CREATE VIEW named AS SELECT c.patient, c.visit, c.date, c.domain,
            CASE WHEN k.id IS NOT NULL THEN 'concept' WHEN c.value <> '' THEN 'value'
                 WHEN c.concept <> '' THEN 'number' ELSE 'nothing' END AS how,
            CASE how WHEN 'concept' THEN k.code WHEN 'value' THEN c.value ELSE c.concept END AS code,
            CASE how WHEN 'concept' THEN k.system WHEN 'value' THEN '{system}' WHEN 'number' THEN 'OMOP' ELSE ''
            END AS system, c.domain = 'lab' AS measured, c.number AS value,
            CASE WHEN c.unit <> '' THEN c.unit ELSE coalesce(u.code, '') END AS unit
            FROM coded c LEFT JOIN concepts k ON k.id = c.concept LEFT JOIN concepts u ON u.id = c.unit_concept"""
    )
    words = {
        "concept": "rows by vocabulary_id and concept_code",
        "value": "rows by source_value, the concept being unknown",
        "number": "rows by concept_id, no other name being known",
    }
    counts = dict(bench.query("SELECT how, count(*) FROM named GROUP BY how ORDER BY how"))
    names = bench.query("SELECT system, code, name FROM concepts WHERE name <> ''")
    card = {"code names": {words[how]: n for how, n in counts.items() if how in words}}
    return card, {(system, code): name for system, code, name in names}


def _own_codes(bench: Workbench, book: Codebook) -> None:
    """Make `named` and `people` from an export of this project, whose source values are the codes themselves."""
    bench.run(
        """CREATE VIEW named AS SELECT patient, visit, date, 'diagnosis' AS domain, value AS code, '' AS system,
           number IS NOT NULL AS measured, number AS value, '' AS unit FROM coded WHERE visit <> ''
           UNION ALL SELECT patient, visit, date, 'diagnosis', kind_word, '', false, NULL, '' FROM stays
           WHERE starts_with(kind_word, 'KIND/')
           UNION ALL SELECT patient, visit, date, 'diagnosis', end_word, '', false, NULL, '' FROM stays
           WHERE starts_with(end_word, 'END/')"""
    )
    book.make_people(bench, "SELECT patient, value AS key FROM coded WHERE visit = ''")


def _load_stays(bench: Workbench, table: Table) -> None:
    """Make `stays`: each visit with its start and end, by time where the table has one, else by date."""
    table.column("visit_start_date", "visit_start_datetime")
    needed = {"person": "person_id", "id": "visit_occurrence_id"}
    optional = {
        "start": ("visit_start_datetime",),
        "day": ("visit_start_date",),
        "end_time": ("visit_end_datetime",),
        "end_day": ("visit_end_date",),
        "kind": ("visit_concept_id",),
        "kind_word": ("visit_source_value",),
        "ending": ("discharged_to_concept_id", "discharge_to_concept_id"),
        "end_word": ("discharged_to_source_value", "discharge_to_source_value"),
    }
    _load(bench, "stay_rows", table, needed, optional)
    bench.run(
        f"""CREATE TABLE stays AS SELECT {_ID.format("person")} AS patient, {_ID.format("id")} AS visit,
            CASE WHEN start <> '' THEN start ELSE day END AS date, {_ID.format("kind")} AS kind, kind_word,
            {_ID.format("ending")} AS ending, end_word,
            CASE WHEN start <> '' AND end_time <> '' THEN days_of(end_time) - days_of(start)
                ELSE days_of(end_day) - floor(days_of(CASE WHEN day <> '' THEN day ELSE start END)) END AS days
            FROM stay_rows"""
    )


def _load_courses(bench: Workbench, table: Table | None) -> dict[str, int]:
    """Make `courses` of the visits and the table of deaths, if there is one; words that are not known."""
    deaths = None
    if table is not None:
        _load(bench, "dead", table, {"person": "person_id"}, {"time": ("death_datetime",), "day": ("death_date",)})
        deaths = f"""SELECT {_ID.format("person")} AS patient,
            days_of(CASE WHEN time <> '' THEN time ELSE day END) AS day FROM dead"""
    # What an export of this project says in words is finer than its concepts.
    kind, ending = (
        f"CASE WHEN starts_with({word}, '{name}/') THEN '{MARK}' || substr({word}, {len(name) + 2}) ELSE {concept} END"
        for word, name, concept in (("kind_word", "KIND", "kind"), ("end_word", "END", "ending"))
    )
    rows = f"""SELECT patient, visit, {kind} AS kind, {ending} AS ending, false AS died, days_of(date) AS begins, days
        FROM stays"""
    return make_courses(bench, rows, OMOP_KINDS | MARKED_KINDS, OMOP_ENDS | MARKED_ENDS, deaths)


def _shape_people(bench: Workbench, table: Table) -> tuple[str, ...]:
    """Make `people` with sex and age band at the first visit; the names of these attributes."""
    optional = {"gender": ("gender_concept_id",), "word": ("gender_source_value",), "born": ("year_of_birth",)}
    _load(bench, "persons", table, {"patient": "person_id"}, optional)
    bench.run(
        f"""CREATE TABLE people AS SELECT {_ID.format("p.patient")} AS patient, '' AS visit,
            CASE {_ID.format("gender")} WHEN '8507' THEN 'M' WHEN '8532' THEN 'F'
                ELSE CASE WHEN left(upper(word), 1) IN ('M', 'F') THEN left(upper(word), 1) ELSE '' END END AS sex,
            coalesce(age_band(CASE WHEN try_cast({_ID.format("born")} AS INTEGER) > 0 THEN
                year(DATE '1970-01-01' + CAST(floor(f.first_day) AS INTEGER))
                - try_cast({_ID.format("born")} AS INTEGER) END), '') AS age_band
            FROM persons p LEFT JOIN (SELECT patient, min(days_of(date)) AS first_day FROM visits GROUP BY patient) f
            ON f.patient = {_ID.format("p.patient")}"""
    )
    return ("sex", "age_band")
