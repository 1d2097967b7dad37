"""Synthea: the CSV files of its simulated patients, with SNOMED CT, RxNorm and LOINC codes."""

from __future__ import annotations

from pathlib import Path

from adapcla.data import Kind
from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions
from adapcla.io.tables import find_table, need_table
from adapcla.io.visit_terms import SYNTHEA_KINDS

#: Domain → file, system of its codes, domain of a vocabulary, column of the time.
_FILES = {
    "dx": ("conditions", "SNOMED", "diagnosis", "START"),
    "px": ("procedures", "SNOMED", "procedure", "START"),
    "rx": ("medications", "RXNORM", "drug", "START"),
    "lab": ("observations", "LOINC", "lab", "DATE"),
}


def read_synthea(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a folder with patients, conditions and encounters holds, and the files of further domains."""
    people = need_table(path, "patients")
    identity = people.column("Id", "PATIENT")
    db.load(
        "people_rows",
        people,
        {"patient": identity},
        optional={"sex": ("GENDER",), "birth": ("BIRTHDATE",), "death": ("DEATHDATE",)},
    )
    events, names = [], []
    for domain, (name, system, kind, time) in _FILES.items():
        if domain not in options.domains:
            continue
        db.load(
            name,
            need_table(path, name),
            {"patient": "PATIENT", "visit": "ENCOUNTER", "code": "CODE"},
            # Older versions write the date of a procedure in a column DATE.
            optional={"time": (time, "DATE"), "description": ("DESCRIPTION",), "value": ("VALUE",), "unit": ("UNITS",)},
        )
        events.append(
            f"""SELECT patient, visit, {_local("time")} AS time, '{system}' AS system, code, '{kind}' AS domain,
                {"true" if domain == "lab" else "false"} AS measured, value, unit FROM {name}"""
        )
        names.append(f"SELECT '{system}' AS system, code, description, '' AS choice_group FROM {name}")
    visits = "SELECT '' AS patient, '' AS visit, '' AS start, '' AS \"end\", '' AS kind WHERE false"
    # A part of a data set may come without its encounters; they then begin with their first code.
    if (encounters := find_table(path, "encounters")) is not None:
        columns = {"visit": "ID", "patient": "PATIENT"}
        optional = {"start": ("START", "DATE"), "stop": ("STOP",), "kind": ("ENCOUNTERCLASS",)}
        db.load("encounters", encounters, columns, optional=optional)
        visits = f'SELECT patient, visit, {_local("start")} AS start, {_local("stop")} AS "end", kind FROM encounters'
    return SourceTables(
        visits=f"""SELECT patient, visit, start, "end", '' AS day, '' AS sequence, kind, '' AS discharge, false AS died,
            CAST(NULL AS DOUBLE) AS length_days FROM ({visits})""",
        events=" UNION ALL ".join(events) or NO_EVENTS,
        visit_rule="one encounter, or one calendar day where a row has none; ordered by the start of the encounter",
        patients="SELECT patient, '' AS visit, sex, birth, '' AS age, death FROM people_rows",
        known=("sex", "age_band"),
        names=" UNION ALL ".join(names),
        day_visits=True,
        kind_terms=SYNTHEA_KINDS,
        discharge_terms={"": ""},
        origin=Kind.SIMULATED,
    )


def _local(column: str) -> str:
    """SQL for a time without the mark of its zone."""
    return f"rtrim({column}, 'Z')"
