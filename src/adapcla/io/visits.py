"""When visits were, in which order, of which kind, how long, how they ended; and what is known of the patients.

All of it comes from the views `found_visits` and `found_patients`, which `assemble` makes of what a reader found.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError
from adapcla.io.database import Database

#: More values than this are not a static attribute.
MAX_CATEGORIES = 200


def order_visits(db: Database, path: Path | None) -> None:
    """Make `ordered`: each visit once, with its patient's number, its own number and its day; and `first_days`.

    Visits stand in the order of date, day, sequence (as number, then as text), visit id (likewise).
    """
    no_patient, no_visit = db.query(
        """SELECT count(*) FILTER (patient = ''), count(*) FILTER (patient <> '' AND visit = '')
           FROM found_visits"""
    )[0]
    db.drop("visit rows without a patient id", no_patient)
    db.drop("visit rows without a visit id", no_visit)
    db.run(
        """CREATE TABLE known AS SELECT patient, visit, min(days_of(start)) AS date,
           min(try_cast(day AS DOUBLE)) AS day, min(try_cast(sequence AS DOUBLE)) AS rank, min(sequence) AS sequence,
           bool_or(start <> '') AS has_date, bool_or(day <> '') AS has_day
           FROM found_visits WHERE patient <> '' AND visit <> '' GROUP BY patient, visit"""
    )
    n_patients, n_visits = db.query("SELECT count(DISTINCT patient), count(*) FROM known")[0]
    db.in_source |= {"patients": n_patients, "visits": n_visits + no_patient + no_visit}
    db.run("DELETE FROM known WHERE isnan(day) OR isinf(day)")
    for column in ("date", "day"):
        readable, given = db.query(f"SELECT count({column}), count(*) FILTER (has_{column}) FROM known")[0]
        if given and not readable:
            raise InputError(
                f"no readable {column} in {given:,} visits",
                path=path,
                expected="2024-01-31 (a time may follow), 20240131, 31.01.2024, 31/01/2024 or 31-Jan-2024; days as "
                "numbers",
                remedy=f"name another {column} column; without one, visits stand in the order of their ids",
            )
        if readable:
            unreadable = db.number(f"SELECT count(*) FROM known WHERE {column} IS NULL")
            db.drop(f"visits without a readable {column}", unreadable)
            db.run(f"DELETE FROM known WHERE {column} IS NULL")
            left = db.number("SELECT count(DISTINCT patient) FROM known")
            db.drop(f"patients without a readable {column}", n_patients - left)
            n_patients = left
    db.run(
        """CREATE TABLE ordered AS SELECT patient, visit, dense_rank() OVER (ORDER BY patient) - 1 AS person,
           row_number() OVER (ORDER BY patient, date, day, rank NULLS LAST, sequence,
                              try_cast(visit AS HUGEINT) NULLS LAST, visit) - 1 AS position,
           floor(coalesce(date, day)) AS moment FROM known"""
    )
    db.run(
        """CREATE TABLE first_days AS SELECT patient, DATE '1970-01-01' + CAST(floor(min(date)) AS INTEGER) AS day
           FROM known WHERE date BETWEEN -1000000 AND 3000000 GROUP BY patient"""
    )
    db.run("DROP TABLE known")


# ---- stays ------------------------------------------------------------------------------------------------
def make_stays(db: Database, kinds: Mapping[str, str], discharges: Mapping[str, str]) -> dict[str, int]:
    """Make `stays` (patient, visit, kind, ending, begins, days, late); how many words were not known, for the card.

    A visit takes as long as its reader says, else from start to end: whole days where the end has no time of day.
    A death belongs to the visit that it fell into, if any; visits that begin on a later day are `late`.

    Args:
        db: Where the views are.
        kinds: Word in lower case → kind of visit, or nothing.
        discharges: Word in lower case → ending, or nothing.
    """
    import pyarrow as pa

    for name, words in (("kind_words", kinds), ("discharge_words", discharges)):
        columns = {"word": list(words), "meaning": list(words.values())}
        db.add(name, pa.table({column: pa.array(texts, pa.string()) for column, texts in columns.items()}))
    db.run(
        """CREATE TABLE stay_rows AS SELECT v.patient, v.visit, days_of(v.start) AS begins,
           coalesce(v.died, false) AS died,
           coalesce(v.length_days, CASE WHEN contains(v."end", ':') THEN days_of(v."end") - days_of(v.start)
               ELSE days_of(v."end") - floor(days_of(v.start)) END) AS days,
           coalesce(k.meaning, 'other') AS kind, coalesce(d.meaning, 'other') AS ending,
           k.meaning IS NULL AS odd_kind, d.meaning IS NULL AS odd_ending FROM found_visits v
           LEFT JOIN kind_words k ON k.word = lower(coalesce(v.kind, ''))
           LEFT JOIN discharge_words d ON d.word = lower(coalesce(v.discharge, ''))"""
    )
    db.drop("lengths of stay below zero", db.number("SELECT count(*) FROM stay_rows WHERE days < 0"))
    db.run("UPDATE stay_rows SET days = NULL WHERE days < 0 OR NOT isfinite(days)")
    db.run(
        """CREATE TABLE stays AS SELECT patient, visit, coalesce(min(kind) FILTER (kind <> ''), '') AS kind,
           CASE WHEN bool_or(died OR ending = 'died') THEN 'died'
                ELSE coalesce(min(ending) FILTER (ending <> ''), '') END AS ending,
           min(begins) AS begins, round(max(days), 2) AS days, false AS late
           FROM stay_rows GROUP BY patient, visit"""
    )
    db.run(
        """CREATE TABLE deaths AS SELECT patient, min(days_of(death)) AS day FROM found_patients
           WHERE days_of(death) IS NOT NULL GROUP BY patient"""
    )
    db.run(
        """UPDATE stays SET ending = 'died' FROM (
               SELECT s.patient, s.visit FROM stays s JOIN deaths d ON d.patient = s.patient
               WHERE floor(s.begins) <= floor(d.day) AND floor(d.day) <= floor(s.begins + coalesce(s.days, 0))
               QUALIFY row_number() OVER (PARTITION BY s.patient ORDER BY s.begins DESC, s.visit DESC) = 1
           ) f WHERE f.patient = stays.patient AND f.visit = stays.visit"""
    )
    db.run(
        """UPDATE stays SET late = true FROM deaths d
           WHERE d.patient = stays.patient AND floor(stays.begins) > floor(d.day)"""
    )
    odd_kinds, odd_endings = db.query("SELECT sum(odd_kind::INTEGER), sum(odd_ending::INTEGER) FROM stay_rows")[0]
    said = {"rows of another kind of visit": int(odd_kinds or 0), "rows of another ending": int(odd_endings or 0)}
    return {what: n for what, n in said.items() if n}


def late_visits(died: NDArray[np.bool_], person: NDArray[np.int64], by_date: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which visits come after the patient's death, by a visit that ended with it or by its date.

    >>> late_visits(np.array([False, True, False, False]), np.array([4, 4, 4, 5]), np.zeros(4, dtype=bool)).tolist()
    [False, False, True, False]
    """
    before: NDArray[np.int64] = np.cumsum(died) - died
    late: NDArray[np.bool_] = before > before[np.searchsorted(person, person, side="left")]
    return late | by_date


# ---- patients ---------------------------------------------------------------------------------------------
def make_people(db: Database, known: tuple[str, ...], attributes: tuple[str, ...]) -> None:
    """Make the view `people`: patient, visit, and each attribute as text.

    `sex` is F or M by the first letter of its word; `age_band` comes from the age, else from the year or date of birth
    and the day of the first visit. What else there is stays as it is.
    """
    years = """CASE WHEN regexp_full_match(p.birth, '[0-9]{4}') THEN year(f.day) - try_cast(p.birth AS INTEGER)
        ELSE datesub('year', DATE '1970-01-01' + CAST(floor(days_of(p.birth)) AS INTEGER), f.day) END"""
    shaped = {
        "sex": """CASE WHEN upper(left(p.sex, 1)) IN ('F', 'W') THEN 'F' WHEN upper(left(p.sex, 1)) = 'M' THEN 'M'
            ELSE '' END""",
        "age_band": f"age_band(coalesce(try_cast(p.age AS DOUBLE), {years}))",
    }
    nameless = """SELECT count(DISTINCT p.patient) FROM found_patients p
        ANTI JOIN found_visits v ON v.patient = p.patient WHERE p.patient <> ''"""
    if known:
        db.drop("people of whom no visit is known", db.number(nameless))
    columns = "".join(f", coalesce({shaped[name]}, '') AS {name}" for name in known)
    columns += "".join(f', p."attribute_{name}" AS "{name}"' for name in attributes)
    db.run(
        f"""CREATE VIEW people AS SELECT p.patient, p.visit{columns} FROM found_patients p
            LEFT JOIN first_days f ON f.patient = p.patient"""
    )


def make_attribute(db: Database, name: str, path: Path | None) -> tuple[str, ...]:
    """Make `static_NAME` (person, place), a static attribute: its value at the patient's first visit that has one.

    What comes back are the categories that the places stand for.
    """
    import pyarrow as pa

    db.run(
        f"""CREATE TABLE first_values AS
            SELECT o.person, first(nfc_normalize(p."{name}") ORDER BY o.position, p."{name}") AS value
            FROM people p JOIN ordered o ON o.patient = p.patient AND p.visit IN (o.visit, '')
            WHERE p."{name}" <> '' GROUP BY o.person"""
    )
    n = db.number("SELECT count(DISTINCT value) FROM first_values")
    if n > MAX_CATEGORIES:
        raise InputError(
            f"{n:,} different values",
            path=path,
            column=name,
            expected=f"a property with at most {MAX_CATEGORIES} values",
            remedy="leave it out of --attributes, or band it first",
        )
    categories = sorted(value for (value,) in db.query("SELECT DISTINCT value FROM first_values"))
    places = pa.array(range(len(categories)), pa.int16())
    db.add("categories", pa.table({"value": pa.array(categories, pa.string()), "place": places}))
    db.run(
        f"""CREATE TABLE "static_{name}" AS SELECT person, place FROM first_values JOIN categories USING (value)
            ORDER BY person"""
    )
    db.run("DROP TABLE first_values")
    db.run("DROP TABLE categories")
    return tuple(categories)
