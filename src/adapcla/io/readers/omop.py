"""OMOP common data model (5.4, and what is older and alike): visits with codes, measurements and stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.data import Kind
from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.codebook import kind_named
from adapcla.io.database import Database, quoted
from adapcla.io.options import ReadOptions
from adapcla.io.tables import find_table, need_table
from adapcla.io.visit_terms import END_TOKENS, KIND_TOKENS, OMOP_ENDS, OMOP_KINDS

#: Domain → table, stem of its columns, its date columns, domain of a vocabulary.
_TABLES = {
    "dx": ("condition_occurrence", "condition", ("condition_start_date", "condition_start_datetime"), "diagnosis"),
    "px": ("procedure_occurrence", "procedure", ("procedure_date", "procedure_datetime"), "procedure"),
    "rx": ("drug_exposure", "drug", ("drug_exposure_start_date", "drug_exposure_start_datetime"), "drug"),
    "lab": ("measurement", "measurement", ("measurement_datetime", "measurement_date"), "lab"),
}
#: Operators that say that a value is the value, not a bound of it.
_EQUAL = ("", "0", "4172703")
#: How a code was named → what the card says of it.
_HOW = {
    "concept": "rows by vocabulary_id and concept_code",
    "value": "rows by source_value, the concept being unknown",
    "number": "rows by concept_id, no other name being known",
}


def read_omop(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder with visit_occurrence and the tables of the domains holds."""
    rows = [_load_codes(db, path, *_TABLES[domain]) for domain in options.domains if domain in _TABLES]
    card, names = _name_codes(db, path, rows, options.system) if rows else ({}, "")
    _load_visits(db, path)
    db.load(
        "people_rows",
        need_table(path, "person"),
        {"patient": "person_id"},
        optional={
            "gender": ("gender_concept_id",),
            "word": ("gender_source_value",),
            "born": ("year_of_birth",),
        },
    )
    patients = """SELECT whole_id(patient) AS patient, '' AS visit,
        CASE whole_id(gender) WHEN '8507' THEN 'M' WHEN '8532' THEN 'F' ELSE word END AS sex,
        CASE WHEN try_cast(whole_id(born) AS INTEGER) > 0 THEN whole_id(born) ELSE '' END AS birth, '' AS age,
        '' AS death FROM people_rows"""
    if "stay" in options.domains and (table := find_table(path, "death")) is not None:
        dates = {"time": ("death_datetime",), "day": ("death_date",)}
        db.load("death_rows", table, {"patient": "person_id"}, optional=dates)
        patients += """ UNION ALL SELECT whole_id(patient), '', '', '', '', CASE WHEN time <> '' THEN time ELSE day END
            FROM death_rows"""
    return SourceTables(
        # Times where both ends have one, else days.
        visits="""SELECT whole_id(person) AS patient, whole_id(id) AS visit,
            CASE WHEN start <> '' THEN start ELSE day END AS start,
            CASE WHEN start <> '' AND end_time <> '' THEN end_time ELSE left(end_day, 10) END AS "end", '' AS day,
            '' AS sequence, CASE WHEN starts_with(kind_word, 'KIND/') THEN kind_word ELSE whole_id(kind) END AS kind,
            CASE WHEN starts_with(end_word, 'END/') THEN end_word ELSE whole_id(ending) END AS discharge, false AS died,
            CAST(NULL AS DOUBLE) AS length_days FROM visit_rows""",
        events="SELECT patient, visit, time, system, code, domain, measured, value, unit FROM named"
        if rows
        else NO_EVENTS,
        visit_rule="one visit_occurrence_id, or one calendar day where a row has none; ordered by its start",
        patients=patients,
        known=("sex", "age_band"),
        names=names,
        day_visits=True,
        # What an export of this project says in words is finer than its concepts.
        kind_terms=OMOP_KINDS | KIND_TOKENS,
        discharge_terms=OMOP_ENDS | END_TOKENS,
        card=card,
        origin=_origin(db, path),
    )


def _origin(db: Database, path: Path) -> Kind:
    """What cdm_source says that the patients are."""
    table = find_table(path, "cdm_source")
    name = None if table is None else table.first_of("cdm_source_name")
    if table is None or name is None:
        return Kind.REAL
    db.load("cdm_source", table, {"name": name})
    return kind_named([name for (name,) in db.query("SELECT name FROM cdm_source")])


def _load_codes(db: Database, path: Path, name: str, stem: str, dates: tuple[str, ...], domain: str) -> str:
    """Load a table of codes; SQL for its rows, in which the source's own concept goes before the standard one."""
    own, standard = "whole_id(own)", "whole_id(standard)"
    visit = "whole_id(visit)"
    db.load(
        f"{stem}_rows",
        need_table(path, name),
        {"patient": "person_id", "standard": f"{stem}_concept_id"},
        optional={
            "own": (f"{stem}_source_concept_id",),
            "source_value": (f"{stem}_source_value",),
            "visit": ("visit_occurrence_id",),
            "date": dates,
            "number": ("value_as_number",),
            "unit": ("unit_source_value",),
            "unit_concept": ("unit_concept_id",),
            "operator": ("operator_concept_id",),
        },
        select=f"""whole_id(patient) AS patient, CASE WHEN {visit} = '0' THEN '' ELSE {visit} END AS visit,
            date AS time, CASE WHEN {own} NOT IN ('', '0') THEN {own} WHEN {standard} <> '0' THEN {standard}
                ELSE '' END AS concept,
            source_value, CASE WHEN whole_id(operator) IN {_EQUAL} THEN number ELSE '' END AS number, unit,
            whole_id(unit_concept) AS unit_concept""",
    )
    return f"SELECT *, '{domain}' AS domain FROM {stem}_rows"


def _name_codes(db: Database, path: Path, rows: list[str], system: str) -> tuple[dict[str, Any], str]:
    """Make `named`, with system and code of each row by the concept table; how codes were named, and their names."""
    db.run("CREATE VIEW coded_rows AS " + " UNION ALL ".join(rows))
    table = find_table(path, "concept")
    if table is None:
        db.run("CREATE TABLE concepts (id VARCHAR, system VARCHAR, code VARCHAR, name VARCHAR)")
    else:
        used = "SELECT concept FROM coded_rows UNION SELECT unit_concept FROM coded_rows"
        db.load(
            "concept_rows",
            table,
            {"id": "concept_id", "system": "vocabulary_id", "code": "concept_code", "name": "concept_name"},
            where=f"whole_id(id) IN ({used})",
        )
        db.run(
            """CREATE TABLE concepts AS SELECT whole_id(id) AS id, code, min(name) AS name,
               regexp_replace(system, '[^A-Za-z0-9._-]+', '-', 'g') AS system FROM concept_rows GROUP BY ALL"""
        )
    db.run(
        f"""CREATE VIEW named AS SELECT c.patient, c.visit, c.time, c.domain,
            CASE WHEN k.id IS NOT NULL THEN 'concept' WHEN c.source_value <> '' THEN 'value'
                 WHEN c.concept <> '' THEN 'number' ELSE 'nothing' END AS how,
            CASE how WHEN 'concept' THEN k.code WHEN 'value' THEN c.source_value ELSE c.concept END AS code,
            CASE how WHEN 'concept' THEN k.system WHEN 'value' THEN {quoted(system)} WHEN 'number' THEN 'OMOP' ELSE ''
            END AS system, c.domain = 'lab' AS measured, c.number AS value,
            CASE WHEN c.unit <> '' THEN c.unit ELSE coalesce(u.code, '') END AS unit
            FROM coded_rows c LEFT JOIN concepts k ON k.id = c.concept LEFT JOIN concepts u ON u.id = c.unit_concept"""
    )
    counts = dict(db.query("SELECT how, count(*) FROM named GROUP BY how ORDER BY how"))
    card = {"code names": {_HOW[how]: n for how, n in counts.items() if how in _HOW}}
    return card, "SELECT system, code, name AS description, '' AS choice_group FROM concepts WHERE name <> ''"


def _load_visits(db: Database, path: Path) -> None:
    """Make `visit_rows`: each visit with its start and end, by time and by date."""
    table = need_table(path, "visit_occurrence")
    table.column("visit_start_date", "visit_start_datetime")
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
    db.load("visit_rows", table, {"person": "person_id", "id": "visit_occurrence_id"}, optional=optional)
