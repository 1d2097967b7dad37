"""OMOP CDM 5.4 out: CSV tables with all columns of the CDM.

Concepts are mapped through a download of Athena where one is given. Without it, or for a code that it lacks, the
standard concept is 0. `concept` holds the source concepts alone: Athena's, or one of our own from 2,000,000,000 on for
a code with a system. Columns by OHDSI, CommonDataModel, DDL of version 5.4; concepts by OHDSI, Standardized
Vocabularies.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adapcla.data import Cohort, Kind, code_systems
from adapcla.errors import InputError
from adapcla.io.codebook import NAMES
from adapcla.io.database import Database, quoted
from adapcla.io.options import WriteOptions
from adapcla.io.writers.tables import (
    FIRST_DAY,
    Part,
    add_times,
    attribute_column,
    attributes_query,
    birth_years,
    cohort_tables,
    free_text,
)
from adapcla.version import __version__

#: Ids of one width, so that they stand in the same order as numbers and as text; they fit 32 bits.
FIRST_PERSON = 1_000_000_000
#: Concepts of one's own start here by the convention of the CDM.
FIRST_CONCEPT = 2_000_000_000
#: Domain of the CDM → table, the stem of its columns, the stems of its dates.
TABLES = {
    "Condition": ("condition_occurrence", "condition", ("condition_start",)),
    "Procedure": ("procedure_occurrence", "procedure", ("procedure",)),
    "Drug": ("drug_exposure", "drug", ("drug_exposure_start", "drug_exposure_end")),
    "Device": ("device_exposure", "device", ("device_exposure_start",)),
    "Measurement": ("measurement", "measurement", ("measurement",)),
    "Observation": ("observation", "observation", ("observation",)),
}
_CODED = "provider_id visit_occurrence_id visit_detail_id"
_COLUMNS = {
    "person": """person_id gender_concept_id year_of_birth month_of_birth day_of_birth birth_datetime race_concept_id
        ethnicity_concept_id location_id provider_id care_site_id person_source_value gender_source_value
        gender_source_concept_id race_source_value race_source_concept_id ethnicity_source_value
        ethnicity_source_concept_id""",
    "observation_period": """observation_period_id person_id observation_period_start_date
        observation_period_end_date period_type_concept_id""",
    "visit_occurrence": """visit_occurrence_id person_id visit_concept_id visit_start_date visit_start_datetime
        visit_end_date visit_end_datetime visit_type_concept_id provider_id care_site_id visit_source_value
        visit_source_concept_id admitted_from_concept_id admitted_from_source_value discharged_to_concept_id
        discharged_to_source_value preceding_visit_occurrence_id""",
    "condition_occurrence": f"""condition_occurrence_id person_id condition_concept_id condition_start_date
        condition_start_datetime condition_end_date condition_end_datetime condition_type_concept_id
        condition_status_concept_id stop_reason {_CODED} condition_source_value condition_source_concept_id
        condition_status_source_value""",
    "procedure_occurrence": f"""procedure_occurrence_id person_id procedure_concept_id procedure_date procedure_datetime
        procedure_end_date procedure_end_datetime procedure_type_concept_id modifier_concept_id quantity {_CODED}
        procedure_source_value procedure_source_concept_id modifier_source_value""",
    "drug_exposure": f"""drug_exposure_id person_id drug_concept_id drug_exposure_start_date
        drug_exposure_start_datetime drug_exposure_end_date drug_exposure_end_datetime verbatim_end_date
        drug_type_concept_id stop_reason refills quantity days_supply sig route_concept_id lot_number {_CODED}
        drug_source_value drug_source_concept_id route_source_value dose_unit_source_value""",
    "device_exposure": f"""device_exposure_id person_id device_concept_id device_exposure_start_date
        device_exposure_start_datetime device_exposure_end_date device_exposure_end_datetime device_type_concept_id
        unique_device_id production_id quantity {_CODED} device_source_value device_source_concept_id unit_concept_id
        unit_source_value unit_source_concept_id""",
    "measurement": f"""measurement_id person_id measurement_concept_id measurement_date measurement_datetime
        measurement_time measurement_type_concept_id operator_concept_id value_as_number value_as_concept_id
        unit_concept_id range_low range_high {_CODED} measurement_source_value measurement_source_concept_id
        unit_source_value unit_source_concept_id value_source_value measurement_event_id meas_event_field_concept_id""",
    "observation": f"""observation_id person_id observation_concept_id observation_date observation_datetime
        observation_type_concept_id value_as_number value_as_string value_as_concept_id qualifier_concept_id
        unit_concept_id {_CODED} observation_source_value observation_source_concept_id unit_source_value
        qualifier_source_value value_source_value observation_event_id obs_event_field_concept_id""",
    "death": """person_id death_date death_datetime death_type_concept_id cause_concept_id cause_source_value
        cause_source_concept_id""",
    "condition_era": """condition_era_id person_id condition_concept_id condition_era_start_date
        condition_era_end_date condition_occurrence_count""",
    "drug_era": """drug_era_id person_id drug_concept_id drug_era_start_date drug_era_end_date drug_exposure_count
        gap_days""",
    "concept": """concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code
        valid_start_date valid_end_date invalid_reason""",
    "cdm_source": """cdm_source_name cdm_source_abbreviation cdm_holder source_description
        source_documentation_reference cdm_etl_reference source_release_date cdm_release_date cdm_version
        cdm_version_concept_id vocabulary_version""",
}
#: Table → its columns, in the order of the CDM.
COLUMNS = {table: tuple(columns.split()) for table, columns in _COLUMNS.items()}
_MALE, _FEMALE, _EHR, _EHR_ENCOUNTER, _CDM_54 = 8507, 8532, 32817, 32827, 756265
_VISIT_TYPES = {"inpatient": 9201, "outpatient": 9202, "emergency": 9203}
#: Kind and ending of a visit → the concept that says the same; others have none, and of deaths the table `death` tells.
_KINDS = {**_VISIT_TYPES, "elective": 9201, "emergency-inpatient": 262}
_ENDINGS = {"home": 8536, "home-care": 38004519, "hospice": 8546, "against-advice": 4021968}
_DOMAINS = {"diagnosis": "Condition", "procedure": "Procedure", "drug": "Drug", "lab": "Measurement"}
#: The domains whose tables have a column for a number.
_NUMBERS = ("Measurement", "Observation")
#: Days without a condition or drug after which its next occurrence begins a new era.
_PERSISTENCE = 30
_DESCRIPTIONS = {
    Kind.SYNTHETIC: "SYNTHETIC patients written by a generative model",
    Kind.SIMULATED: "SYNTHETIC patients drawn by a simulator",
    Kind.REAL: "Patients of source data, without ids and dates",
    Kind.UNKNOWN: "Patients of unknown origin: they may be real",
}
_ATHENA = {"CONCEPT": COLUMNS["concept"], "CONCEPT_RELATIONSHIP": ("concept_id_1", "concept_id_2", "relationship_id")}


#: Tables that are the same for all parts.
_ONCE = ("concept", "cdm_source")


def write_omop(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write persons, visits, codes, eras, deaths, the source concepts, and what the patients are."""
    cohort = part.cohort
    cohort_tables(db, cohort, part.before)
    add_times(db)
    _add_concepts(db, cohort, options.vocabulary)
    # The rows of the parts before are at most so many in any table.
    most = db.number("SELECT max(n) FROM (SELECT count(*) AS n FROM concepts GROUP BY code)")
    db.run(f"SET VARIABLE rows_before = {part.before[2] * most + part.before[0] * len(cohort.attributes)}")
    for table, (columns, source) in {
        **_people(cohort, options),
        "visit_occurrence": _visits(options),
        **{TABLES[domain][0]: _coded(domain) for domain in TABLES if domain != "Observation"},
        "observation": _observations(cohort),
        "condition_era": _eras("Condition", "condition_occurrence_count"),
        "drug_era": _eras("Drug", "drug_exposure_count", gap_days="CAST(last_day - first_day AS BIGINT) + 1 - n_days"),
        "concept": ({name: name for name in COLUMNS["concept"]}, "source_concepts ORDER BY CAST(concept_id AS BIGINT)"),
        "cdm_source": _source(part.whole, options),
    }.items():
        listed = ", ".join(f"{columns.get(name, 'NULL')} AS {name}" for name in COLUMNS[table])
        if table not in _ONCE:
            db.copy(f"SELECT {listed} FROM {source}", part.file(folder, table, ".csv"))
        elif part.number == 0:
            db.copy(f"SELECT {listed} FROM {source}", folder / f"{table}.csv")


Select = tuple[dict[str, str], str]
#: Ids of rows go on behind those of the parts before.
_BEFORE = "getvariable('rows_before')"


def _times(stems: tuple[str, ...], moment: str) -> dict[str, str]:
    """The columns of date and time of these stems; a moment is rounded to seconds."""
    second = f"date_trunc('second', {moment} + to_milliseconds(500))"
    return {f"{stem}_date": f"CAST({second} AS DATE)" for stem in stems} | {f"{s}_datetime": second for s in stems}


def _people(cohort: Cohort, options: WriteOptions) -> dict[str, Select]:
    """Columns and source of person, observation_period and death."""
    sex, born = attribute_column(cohort, "sex"), f"coalesce(birth_year, {options.birth_year or 'NULL'})"
    person = f"patient + {FIRST_PERSON}"
    gender = f"CASE left(upper({sex}), 1) WHEN 'M' THEN {_MALE} WHEN 'F' THEN {_FEMALE} ELSE 0 END"
    spans = (
        "(SELECT patient, min(begins) AS first, max(ends) AS last, max_by(ends, visit) AS final FROM stays GROUP BY 1)"
    )
    return {
        "person": (
            {
                "person_id": person,
                "gender_concept_id": gender,
                "year_of_birth": born,
                "month_of_birth": "1",
                "day_of_birth": "1",
                "birth_datetime": f"make_timestamp({born}, 1, 1, 0, 0, 0)",
                "race_concept_id": "0",
                "ethnicity_concept_id": "0",
                "person_source_value": person,
                "gender_source_value": free_text(sex),
            },
            "patients ORDER BY patient",
        ),
        "observation_period": (
            {
                "observation_period_id": person,
                "person_id": person,
                "observation_period_start_date": "CAST(first AS DATE)",
                "observation_period_end_date": "CAST(last AS DATE)",
                "period_type_concept_id": str(_EHR),
            },
            f"{spans} ORDER BY patient",
        ),
        "death": (
            {"person_id": person, "death_type_concept_id": str(_EHR), **_times(("death",), "final")},
            f"{spans} JOIN patients USING (patient) WHERE died ORDER BY patient",
        ),
    }


def _visits(options: WriteOptions) -> Select:
    """Columns and source of visit_occurrence; what a visit says of itself goes before `--visit-type`."""
    kind, ending = (
        f"CASE {column} " + " ".join(f"WHEN {quoted(word)} THEN {concept}" for word, concept in known.items())
        for column, known in (("kind", _KINDS), ("ending", _ENDINGS))
    )
    default = _VISIT_TYPES[options.visit_type] if options.visit_type else 0
    columns = {
        "visit_occurrence_id": "visit + 1",
        "person_id": f"patient + {FIRST_PERSON}",
        "visit_concept_id": f"CASE WHEN kind IS NULL THEN {default} ELSE {kind} ELSE 0 END END",
        **_times(("visit_start",), "begins"),
        **_times(("visit_end",), "ends"),
        "visit_type_concept_id": str(_EHR_ENCOUNTER),
        "visit_source_value": f"coalesce('KIND/' || kind, {quoted(options.visit_type or '')})",
        "discharged_to_concept_id": f"CASE WHEN ending IS NOT NULL THEN {ending} ELSE 0 END END",
        "discharged_to_source_value": "'END/' || ending",
    }
    return columns, "stays ORDER BY visit"


def _coded(domain: str) -> Select:
    """Columns and source of the table of one domain: a row for each standard concept of a code."""
    table, stem, dates = TABLES[domain]
    columns = {
        f"{table}_id": f"{_BEFORE} + row_number() OVER (ORDER BY event, standard)",
        "person_id": f"patient + {FIRST_PERSON}",
        f"{stem}_concept_id": "standard",
        **_times(dates, "begins"),
        f"{stem}_type_concept_id": str(_EHR),
        "visit_occurrence_id": "visit + 1",
        f"{stem}_source_value": "token",
        f"{stem}_source_concept_id": "source",
    }
    if domain in _NUMBERS:
        columns |= {"value_as_number": "value", "unit_source_value": "CASE WHEN value IS NOT NULL THEN unit END"}
    return columns, f"coded WHERE domain = '{domain}' ORDER BY event, standard"


def _observations(cohort: Cohort) -> Select:
    """Columns and source of observation: codes, and attributes other than the sex, which have no visit."""
    columns, _ = _coded("Observation")
    source = f"""(SELECT * FROM coded WHERE domain = 'Observation' UNION ALL BY NAME
        SELECT a.patient, begins, {1 << 62} + a.place AS event, 0 AS standard, 0 AS source, a.name AS token, category
        FROM ({attributes_query(cohort, without=("sex",))}) a JOIN stays s ON s.patient = a.patient AND s.number = 0)"""
    order = "event, standard, patient"
    columns["observation_id"] = f"{_BEFORE} + row_number() OVER (ORDER BY {order})"
    return columns | {"value_as_string": free_text("category")}, f"{source} ORDER BY {order}"


def _eras(domain: str, count: str, **more: str) -> Select:
    """Columns and source of the eras of standard concepts: occurrences at most 30 days from the one before."""
    name = domain.lower()
    columns = {
        f"{name}_era_id": f"{_BEFORE} + row_number() OVER (ORDER BY patient, standard, first_day)",
        "person_id": f"patient + {FIRST_PERSON}",
        f"{name}_concept_id": "standard",
        f"{name}_era_start_date": "first_day",
        f"{name}_era_end_date": "last_day",
        count: "n",
        **more,
    }
    per = "PARTITION BY patient, standard ORDER BY day, event"
    source = f"""(SELECT patient, standard, min(day) AS first_day, max(day) AS last_day, count(*) AS n,
            count(DISTINCT day) AS n_days
        FROM (SELECT *, sum(CASE WHEN day - previous <= {_PERSISTENCE} THEN 0 ELSE 1 END) OVER ({per}) AS era
            FROM (SELECT *, lag(day) OVER ({per}) AS previous
                FROM (SELECT *, CAST(begins AS DATE) AS day FROM coded WHERE domain = '{domain}' AND standard > 0)))
        GROUP BY patient, standard, era)"""
    return columns, f"{source} ORDER BY patient, standard, first_day"


def _source(cohort: Cohort, options: WriteOptions) -> Select:
    """Columns and source of cdm_source: what kind of patients these are, and what stands in for unknown years."""
    kind = cohort.origin.kind
    unknown = int((birth_years(cohort) == 0).sum())
    stand_in = f"; {unknown} of {cohort.n_patients} with {options.birth_year} in place of an unknown year of birth"
    texts = {
        "cdm_source_name": NAMES[kind],
        "cdm_source_abbreviation": "SYNTHETIC" if kind.is_artificial else kind.value.upper(),
        "cdm_holder": "unknown",
        "source_description": _DESCRIPTIONS[kind] + (stand_in if unknown and options.birth_year else ""),
        "cdm_etl_reference": f"adapcla export {__version__}",
        "source_release_date": str(FIRST_DAY),
        "cdm_release_date": str(FIRST_DAY),
        "cdm_version": "v5.4",
        "cdm_version_concept_id": str(_CDM_54),
        "vocabulary_version": "codes of the cohort" if options.vocabulary is None else "Athena download",
    }
    return {name: quoted(text) for name, text in texts.items()}, "(SELECT 1)"


# ---- concepts ---------------------------------------------------------------------------------------------
def _add_concepts(db: Database, cohort: Cohort, athena: Path | None) -> None:
    """Make `source_concepts` (rows of the table concept) and `coded`: events with source and standard concept.

    An event has a row for each standard concept that its code maps to. A concept whose domain has no table, or no
    place for a number, is an observation.
    """
    import pyarrow as pa

    listed = cohort.vocabulary.codes
    icd = code_systems.icd_systems(cohort.vocabulary)
    names = {
        "code": pa.array(np.arange(len(listed), dtype=np.int32)),
        "vocabulary": pa.array([known or code.system for code, known in zip(listed, icd, strict=True)], pa.string()),
        "plain": pa.array([code_systems.remove_dot(code.bare) for code in listed], pa.string()),
        "own_domain": pa.array([_DOMAINS.get(code.domain, "Observation") for code in listed], pa.string()),
    }
    db.add("named", pa.table(names))
    _add_athena(db, athena)
    with_table, with_number = (", ".join(map(quoted, names)) for names in (TABLES, _NUMBERS))
    db.run(
        f"""CREATE TABLE concepts AS SELECT c.code, coalesce(CAST(s.concept_id AS BIGINT),
                CASE WHEN system <> '' THEN c.code + {FIRST_CONCEPT} ELSE 0 END) AS source,
            coalesce(CAST(m.concept_id AS BIGINT), 0) AS standard,
            CASE WHEN coalesce(m.domain_id, own_domain) IN ({with_table})
                AND (unit = '' OR coalesce(m.domain_id, own_domain) IN ({with_number}))
                THEN coalesce(m.domain_id, own_domain) ELSE 'Observation' END AS table_domain
            FROM codes c JOIN named USING (code) LEFT JOIN sources s USING (code) LEFT JOIN maps m USING (code)"""
    )
    db.run(
        f"""CREATE TABLE source_concepts AS SELECT {", ".join(COLUMNS["concept"])} FROM sources UNION ALL
            SELECT c.code + {FIRST_CONCEPT}, coalesce(nullif({free_text("description")}, ''), token), table_domain,
                system, 'Undefined', NULL, bare, DATE '1970-01-01', DATE '2099-12-31', NULL
            FROM codes c JOIN concepts k USING (code) WHERE k.source >= {FIRST_CONCEPT} AND role = ''"""
    )
    db.run(
        """CREATE TABLE coded AS SELECT e.*, s.begins, k.source, k.standard, k.table_domain AS domain, c.token, c.unit,
               CAST(NULL AS VARCHAR) AS category
           FROM events e JOIN codes c USING (code) JOIN concepts k USING (code) JOIN stays s USING (visit)
           WHERE c.role = ''"""
    )


def _add_athena(db: Database, folder: Path | None) -> None:
    """Make `sources` (code, row of concept) and `maps` (code, concept_id, domain_id) by Athena's files.

    Systems and codes are compared without case and dots. The files, of millions of rows, are read as a stream.
    """
    row = ", ".join(f"c.{name}" for name in COLUMNS["concept"] if not name.startswith("valid_"))
    days = ", ".join(
        f"CAST(strptime(replace(c.{name}, '-', ''), '%Y%m%d') AS DATE) AS {name}"
        for name in ("valid_start_date", "valid_end_date")
    )
    if folder is None:
        absent = ", ".join(f"CAST(NULL AS VARCHAR) AS {name}" for name in COLUMNS["concept"])
        db.run(f"CREATE VIEW concept AS SELECT {absent} WHERE false")
        db.run("CREATE VIEW concept_relationship AS SELECT '' AS concept_id_1, '' AS concept_id_2 WHERE false")
    else:
        for name in _ATHENA:
            _open(db, folder, name)
    # Of several concepts of one code the valid one counts, then the one with the smallest number.
    db.run(
        f"""CREATE TABLE sources AS SELECT k.code, {row}, {days} FROM concept c JOIN named k
            ON upper(c.vocabulary_id) = upper(k.vocabulary) AND upper(replace(c.concept_code, '.', '')) = k.plain
            QUALIFY row_number() OVER (PARTITION BY k.code
                ORDER BY coalesce(c.invalid_reason, ''), CAST(c.concept_id AS BIGINT)) = 1"""
    )
    valid = "" if folder is None else "AND r.relationship_id = 'Maps to' AND coalesce(r.invalid_reason, '') = ''"
    db.run(
        f"""CREATE TABLE maps AS SELECT DISTINCT s.code, c.concept_id, c.domain_id FROM concept_relationship r
            JOIN sources s ON s.concept_id = r.concept_id_1 {valid} JOIN concept c ON c.concept_id = r.concept_id_2
            WHERE c.standard_concept = 'S' AND coalesce(c.invalid_reason, '') = ''"""
    )


def _open(db: Database, folder: Path, name: str) -> None:
    """Make a view of one of Athena's files: tabs between cells, no quotes."""
    path = folder / f"{name}.csv"
    try:
        with path.open(encoding="utf-8") as stream:
            header = stream.readline().rstrip("\r\n").lower().split("\t")
    except (OSError, UnicodeDecodeError):
        raise InputError(
            f"no readable {name}.csv in the vocabulary",
            path=folder,
            expected="an unpacked download from athena.ohdsi.org with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv",
            remedy="check the path of --vocabulary",
        ) from None
    for column in (*_ATHENA[name], "invalid_reason"):
        if column not in header:
            raise InputError(
                f"no column {column!r}",
                path=path,
                row=1,
                expected="a header with it, and tabs between cells",
                remedy="download the vocabulary again",
            )
    db.run(
        f"""CREATE VIEW {name.lower()} AS SELECT * FROM read_csv({quoted(str(path))}, delim = '\t', quote = '',
            escape = '', header = true, all_varchar = true)"""
    )
