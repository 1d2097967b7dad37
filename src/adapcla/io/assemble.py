"""From what a reader found to a cohort: one place for the policies of every source, each counted in the card.

A reader loads tables into a `Database` and says with three queries what is in them (`SourceTables`). All columns are
text without surrounding blanks; what is missing is the empty text.

Policies: visits stand in the order of date, day, sequence, visit id; a visit without a readable date is left out if any
visit has one; a code is normalised (NFC, single blanks) and kept if all of it can be printed; names of drugs and labs
that differ in upper and lower case only are one, written as most rows write it; of two codes of a choice group in a
visit the first in the order of codes is kept; visits after a death are left out where stays are read; patients stand in
the order of their ids, which are then forgotten. So the same rows in another order give the same cohort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.console import say
from adapcla.data import Attribute, Code, Cohort, Kind, Origin, Vocabulary, code_systems
from adapcla.data.code_systems import ICD9, ICD10
from adapcla.data.ragged import since_segment_start, starts_from_sizes
from adapcla.data.vocabulary import (
    DEATH,
    DISCHARGE,
    DISCHARGES,
    LENGTH_OF_STAY,
    STAY,
    VISIT_KIND,
    VISIT_KINDS,
    is_code,
    normalize_code,
)
from adapcla.errors import InputError, UsageError
from adapcla.io.database import Database
from adapcla.io.options import LabValue, ReadOptions

#: More distinct codes than this are a wrong column, not a vocabulary.
MAX_CODES = 2_000_000
#: What a source without patients of its own says of them.
NOBODY = "SELECT '' AS patient, '' AS visit, '' AS sex, '' AS birth, '' AS age, '' AS death WHERE false"
#: The events of a source that is read for its stays alone.
NO_EVENTS = """SELECT '' AS patient, '' AS visit, '' AS time, '' AS system, '' AS code, '' AS domain, false AS measured,
    '' AS value, '' AS unit WHERE false"""
_IDENTIFIED = "(patient <> '' AND visit <> '')"
#: The codes that describe a visit as a whole, by system and code.
_STAY_CODES = {
    **{("KIND", name): (text, VISIT_KIND) for name, text in VISIT_KINDS.items()},
    **{("END", name): (text, DISCHARGE) for name, text in DISCHARGES.items()},
    (LENGTH_OF_STAY.system, LENGTH_OF_STAY.code): (LENGTH_OF_STAY.description, ""),
}
#: More values than this are not a static attribute.
MAX_CATEGORIES = 200


@dataclass(frozen=True)
class SourceTables:
    """What a reader found, as queries over the tables that it loaded."""

    #: One or more rows per visit: patient, visit, start, end (dates or times), day (a number), sequence (any order
    #: key), kind, discharge (words), died (bool), length_days (a number or NULL).
    visits: str
    #: One row per code or value: patient, visit, time, system, code, domain, measured (whether it is one of a number),
    #: value, unit.
    events: str
    #: What a visit is and how visits are ordered, in words, for the card.
    visit_rule: str
    #: Any number of rows per patient: patient, visit (empty where the row speaks of all), sex, birth (a year or date),
    #: age (in years), death (a date), and a column `attribute_NAME` for each of `attributes`.
    patients: str = NOBODY
    #: Which of `sex` and `age_band` the source knows, and the attributes that it has beside them.
    known: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    #: Whether some events may be numbers.
    numbers: bool = True
    #: Optional: system, code, description, choice_group.
    names: str = ""
    #: Whether an event without a visit makes a visit of its calendar day, and a visit that only events name is one.
    day_visits: bool = False
    #: Word in lower case → kind of visit or ending; an empty one says nothing, a word that is not listed is `other`.
    kind_terms: Mapping[str, str] = field(default_factory=dict)
    discharge_terms: Mapping[str, str] = field(default_factory=dict)
    #: Further lines of the card.
    card: Mapping[str, Any] = field(default_factory=dict)
    #: What the data say of themselves, where a format has a place for it.
    origin: Kind = Kind.REAL


def assemble(
    db: Database, found: SourceTables, options: ReadOptions, source: str = "", path: Path | None = None
) -> Cohort:
    """The cohort in what a reader found; `options.max_visits`, `icd` and `level` are applied here, for all alike."""
    card = dict(found.card)
    _make_views(db, found, options, path, card)
    order_visits(db, path)
    known = _known_names(db, found.names)
    if "stay" in options.domains:
        card["stays"] = make_stays(db, found.kind_terms, found.discharge_terms)
        known |= _STAY_CODES
    _make_codes(db, "stay" in options.domains)
    with_numbers = found.numbers or "stay" in options.domains
    read, said = select_numbers(db, options, known) if with_numbers else ([], {})
    vocabulary, n_usable = _build_vocabulary(db, read, known, path)
    entries = _collect_entries(db, vocabulary, n_usable, read)
    rows = db.arrays("SELECT person, moment FROM ordered ORDER BY position")
    person = rows["person"].astype(np.int64)
    late = None
    if "stay" in options.domains:
        died = np.zeros(len(person), dtype=bool)
        if DEATH.token in vocabulary.index:
            died[entries.visit[entries.code == vocabulary.index[DEATH.token]]] = True
        late = late_visits(db, died, person)
    kept = _kept_visits(db, person, entries.visit, late, options.max_visits)
    if not kept.any():
        raise InputError(
            "no patient is left" + _reasons(db.dropped),
            path=path,
            expected="at least one visit with a code",
            remedy="check the column names, --domains and the code column",
        )
    visits_of = np.bincount(person[kept], minlength=int(person[-1]) + 1)
    make_people(db, found.known, found.attributes)
    cohort = Cohort(
        vocabulary,
        **entries.of(kept),
        patient_starts=starts_from_sizes(visits_of[visits_of > 0].astype(np.int64)),
        days=_days(rows["moment"], kept, visits_of[visits_of > 0]),
        attributes={name: attribute(db, name, visits_of > 0, path) for name in (*found.known, *found.attributes)},
        card={
            "source": source,
            **Origin(found.origin).as_card(),
            "visit_rule": found.visit_rule,
            "options": options.for_card(),
            **card,
            **said,
            **({"taken for": dict(db.notes)} if db.notes else {}),
            "dropped": dict(db.dropped),
            "in source": dict(db.in_source),
        },
    )
    if options.icd != "apart":
        cohort = code_systems.map_revision(cohort, ICD9 if options.icd == "map9" else ICD10)
    return code_systems.add_descriptions(code_systems.group_codes(cohort, options.level))


def _make_views(
    db: Database, found: SourceTables, options: ReadOptions, path: Path | None, card: dict[str, Any]
) -> None:
    """Make `source_visits`, `source_events` and `source_patients`; events without a visit go to their calendar day."""
    # A table, because what it is made of may be many times as long, and it is looked at several times.
    db.run(f"CREATE TABLE source_visits AS {found.visits}")
    starts = 'SELECT start FROM source_visits UNION ALL SELECT "end" FROM source_visits'
    if unclear := db.settle_dates(options, [starts]):
        raise InputError(f"unclear: {unclear}", path=path, remedy="name the option that is right")
    if options.decimal is not None:
        db.settle_decimals(options, "")
    events = found.events
    if found.day_visits:
        db.run(
            f"""CREATE TABLE placed AS SELECT * REPLACE (CASE WHEN visit <> '' THEN visit WHEN time <> ''
                THEN 'day ' || coalesce(CAST(CAST(floor(days_of(time)) AS BIGINT) AS VARCHAR), time) ELSE '' END
                AS visit) FROM ({events})"""
        )
        events = "SELECT * FROM placed"
        db.run(
            """INSERT INTO source_visits BY NAME SELECT p.patient, p.visit, p.time AS start, '' AS "end", '' AS day,
               '' AS sequence, '' AS kind, '' AS discharge, false AS died FROM placed p
               ANTI JOIN (SELECT patient, visit FROM source_visits) v ON v.patient = p.patient AND v.visit = p.visit"""
        )
        card["codes without a visit, by day"] = db.number(
            "SELECT count(*) FROM placed WHERE starts_with(visit, 'day ')"
        )
    db.run(f"CREATE VIEW source_events AS {events}")
    db.run(f"CREATE VIEW source_patients AS {found.patients}")


def _known_names(db: Database, names: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(system, code) → description and choice group, where the source says so."""
    rows = (
        db.query(f"SELECT system, code, min(description), min(choice_group) FROM ({names}) GROUP BY 1, 2")
        if names
        else []
    )
    return {(system, normalize_code(code)): (text or "", group or "") for system, code, text, group in rows}


def _make_codes(db: Database, stays: bool) -> None:
    """Make the views `coded` of all codes and `measured` of all numbers: those of the source, and those of stays."""
    coded = ["SELECT patient, visit, system, code, domain FROM source_events WHERE NOT measured"]
    measured = [
        """SELECT patient, visit, system, code, domain, number_of(value) AS value, unit,
           coalesce(days_of(time), number_of(time)) AS moment FROM source_events WHERE measured"""
    ]
    if stays:
        for system, column in (("KIND", "kind"), ("END", "ending")):
            coded.append(f"SELECT patient, visit, '{system}', {column}, '{STAY}' FROM stays WHERE {column} <> ''")
        measured.append(
            f"""SELECT patient, visit, '{LENGTH_OF_STAY.system}', '{LENGTH_OF_STAY.code}', '{STAY}',
                CAST(days AS FLOAT), '{LENGTH_OF_STAY.unit}', NULL FROM stays WHERE days IS NOT NULL"""
        )
    db.run("CREATE VIEW coded AS " + " UNION ALL ".join(coded))
    db.run("CREATE VIEW measured AS " + " UNION ALL ".join(measured))


# ---- codes ------------------------------------------------------------------------------------------------
class _Entries(NamedTuple):
    """The visit, the code and (where there are numbers) the number of every entry, in the order of visits and codes."""

    visit: NDArray[np.int64]
    code: NDArray[np.int64]
    values: NDArray[np.float32] | None

    def where(self, keep: NDArray[np.bool_]) -> _Entries:
        """These entries alone."""
        return _Entries(self.visit[keep], self.code[keep], None if self.values is None else self.values[keep])

    def of(self, kept: NDArray[np.bool_]) -> dict[str, Any]:
        """The arrays of a cohort that has these visits alone."""
        there = self.where(kept[self.visit])
        sizes = np.bincount(there.visit, minlength=len(kept))[kept]
        arrays = {"codes": there.code.astype(np.int32), "visit_starts": starts_from_sizes(sizes.astype(np.int64))}
        return arrays | {"values": there.values}


def _build_vocabulary(
    db: Database,
    read: Sequence[Number],
    known: Mapping[tuple[str, str], tuple[str, str]],
    path: Path | None,
) -> tuple[Vocabulary, int]:
    """The codes of the source, and how many entries they have; `positions` is made of their positions."""
    import pyarrow as pa

    rows = db.query(
        f"""SELECT system, code, min(domain), count(*) FILTER ({_IDENTIFIED}), count(*) FILTER (NOT {_IDENTIFIED})
            FROM coded GROUP BY system, code ORDER BY system, code LIMIT {MAX_CODES + 1}"""
    )
    if len(rows) > MAX_CODES:
        raise InputError(
            f"more than {MAX_CODES:,} different codes",
            path=path,
            expected="a vocabulary",
            remedy="name the column that holds codes; this one looks like an identifier",
        )
    spelling = common_spellings((system, code, domain, n) for system, code, domain, n, _ in rows)
    kept: list[tuple[str, str, Code]] = []
    empty, bad, n_usable = 0, 0, 0
    for system, raw, domain, n, _ in rows:
        code = spelling[system, raw]
        text, group = known.get((system, code), ("", ""))
        full = Code.of(code, system, description=text, domain=domain, group=group)
        if n and is_code(code) and is_code(full.token):
            kept.append((system, raw, full))
            n_usable += n
        else:
            empty, bad = (empty, bad + n) if code else (empty + n, bad)
    db.in_source["codes"] = sum(row[3] + row[4] for row in rows) - empty
    db.drop("codes without a patient or visit id", sum(row[4] for row in rows))
    db.drop("empty code cells", empty)
    db.drop("codes of characters that cannot be printed, or too long", bad)
    vocabulary = Vocabulary.of(
        [*(code for number in read for code in number.kept.values()), *(full for *_, full in kept)]
    )
    columns = {
        "system": pa.array([system for system, _, _ in kept], pa.string()),
        "code": pa.array([raw for _, raw, _ in kept], pa.string()),
        "place": pa.array([vocabulary.index[full.token] for *_, full in kept], pa.int64()),
    }
    db.add("positions", pa.table(columns))
    return vocabulary, n_usable


def _collect_entries(db: Database, vocabulary: Vocabulary, n_usable: int, read: Sequence[Number]) -> _Entries:
    """Every entry once; one code of a choice group in a visit, and numbers with their values."""
    keys = _code_keys(db, len(vocabulary), n_usable)
    values = None
    if read:
        keys, values = _with_numbers(keys, *collect_numbers(db, list(read), vocabulary))
    entries = _Entries(*np.divmod(keys, max(len(vocabulary), 1)), values)
    if values is not None:
        empty = np.isnan(values) & vocabulary.numbers[entries.code]
        db.drop("codes of a number without one", int(empty.sum()))
        entries = entries.where(~empty) if empty.any() else entries
    group = vocabulary.group_of_code[entries.code] if vocabulary.groups else np.zeros(0, np.int32)
    grouped = np.flatnonzero(group >= 0)
    if len(grouped):
        choice = entries.visit[grouped] * len(vocabulary.groups) + group[grouped]
        second = np.ones(len(grouped), dtype=bool)
        second[np.unique(choice, return_index=True)[1]] = False
        db.drop("second choices of a group in a visit", int(second.sum()))
        keep = np.ones(len(group), dtype=bool)
        keep[grouped[second]] = False
        entries = entries.where(keep)
    return entries


def _code_keys(db: Database, n_codes: int, n_usable: int) -> NDArray[np.int64]:
    """Visit number × size of the vocabulary + code number of every code, ascending, each once."""
    found = db.arrays(
        f"""SELECT o.position * {n_codes} + p.place AS key
            FROM coded e JOIN positions p ON p.code = e.code AND p.system = e.system
            JOIN ordered o ON o.patient = e.patient AND o.visit = e.visit"""
    )
    keys: NDArray[np.int64] = np.asarray(found["key"], dtype=np.int64)
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    db.drop("codes of visits that are not known", n_usable - len(keys))
    db.drop("repeated codes in a visit", int(len(keys) - first.sum()))
    return keys[first]


def _with_numbers(
    keys: NDArray[np.int64], measured: NDArray[np.int64], values: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The keys of codes and of numbers together, ascending, each once, and the numbers (NaN at codes).

    >>> _with_numbers(np.array([1, 3]), np.array([4, 3]), np.array([9, 8], dtype=np.float32))
    (array([1, 3, 4]), array([nan,  8.,  9.], dtype=float32))
    """
    values = np.concatenate([values, np.full(len(keys), np.nan, dtype=np.float32)])
    keys = np.concatenate([measured, keys])
    # Stable: the first of equal keys is the one with a number.
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    del order
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return (keys, values) if first.all() else (keys[first], values[first])


# ---- which visits, in which order, of which kind -------------------------------------------------------------------
def order_visits(db: Database, path: Path | None) -> None:
    """Make `ordered`: each visit once, with its patient's number, its own number and its day; and `first_days`.

    Visits stand in the order of date, day, sequence (as number, then as text), visit id (likewise).
    """
    no_patient, no_visit = db.query(
        """SELECT count(*) FILTER (patient = ''), count(*) FILTER (patient <> '' AND visit = '')
           FROM source_visits"""
    )[0]
    db.drop("visit rows without a patient id", no_patient)
    db.drop("visit rows without a visit id", no_visit)
    db.run(
        """CREATE TABLE known AS SELECT patient, visit, min(days_of(start)) AS date,
           min(try_cast(day AS DOUBLE)) AS day, min(try_cast(sequence AS DOUBLE)) AS rank, min(sequence) AS sequence,
           bool_or(start <> '') AS has_date, bool_or(day <> '') AS has_day
           FROM source_visits WHERE patient <> '' AND visit <> '' GROUP BY patient, visit"""
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


def _kept_visits(
    db: Database,
    person: NDArray[np.int64],
    visit_of: NDArray[np.int64],
    after_death: NDArray[np.bool_] | None,
    max_visits: int | None,
) -> NDArray[np.bool_]:
    """Which visits stay: those with a code that begin before a death, and of each patient the first `max_visits`."""
    kept = np.zeros(len(person), dtype=bool)
    kept[visit_of] = True
    db.drop("visits without a code", int((~kept).sum()))
    if after_death is not None:
        db.drop("visits after a death", int((kept & after_death).sum()))
        kept &= ~after_death
    if max_visits is not None:
        before = np.cumsum(kept) - kept
        first_of_person = np.searchsorted(person, person, side="left")
        late = kept & (before - before[first_of_person] >= max_visits)
        db.drop(f"visits beyond a patient's first {max_visits}", int(late.sum()))
        kept &= ~late
    if len(person):
        left = np.bincount(person[kept], minlength=int(person[-1]) + 1)
        db.drop("patients without a visit", int((left == 0).sum()))
    return kept


def _days(moments: Any, kept: NDArray[np.bool_], visits_of: NDArray[np.int64]) -> NDArray[np.int32] | None:
    """Days since each patient's first visit, or None where the source has no dates."""
    if np.ma.isMaskedArray(moments) and np.ma.getmaskarray(moments).any():
        return None
    days = np.asarray(moments, dtype=np.float64)[kept]
    since = since_segment_start(days, starts_from_sizes(visits_of.astype(np.int64)))
    return np.clip(since, 0, np.iinfo(np.int32).max).astype(np.int32)


def _reasons(dropped: Mapping[str, int]) -> str:
    """What was dropped, as the end of a sentence.

    >>> _reasons({"empty code cells": 2})
    '; left out: 2 empty code cells'
    """
    return "; left out: " + ", ".join(f"{n:,} {reason}" for reason, n in dropped.items()) if dropped else ""


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
           k.meaning IS NULL AS odd_kind, d.meaning IS NULL AS odd_ending FROM source_visits v
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
        """CREATE TABLE deaths AS SELECT patient, min(days_of(death)) AS day FROM source_patients
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


def late_visits(db: Database, died: NDArray[np.bool_], person: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which visits come after the patient's death, by a visit that ended with it or by its date."""
    before: NDArray[np.int64] = np.cumsum(died) - died
    late: NDArray[np.bool_] = before > before[np.searchsorted(person, person, side="left")]
    rows = db.arrays(
        "SELECT o.position FROM stays s JOIN ordered o ON o.patient = s.patient AND o.visit = s.visit WHERE s.late"
    )
    late[np.asarray(rows["position"], dtype=np.int64)] = True
    return late


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
    nameless = """SELECT count(DISTINCT p.patient) FROM source_patients p
        ANTI JOIN source_visits v ON v.patient = p.patient WHERE p.patient <> ''"""
    if known:
        db.drop("people of whom no visit is known", db.number(nameless))
    columns = "".join(f", coalesce({shaped[name]}, '') AS {name}" for name in known)
    columns += "".join(f', p."attribute_{name}" AS "{name}"' for name in attributes)
    db.run(
        f"""CREATE VIEW people AS SELECT p.patient, p.visit{columns} FROM source_patients p
            LEFT JOIN first_days f ON f.patient = p.patient"""
    )


def attribute(db: Database, name: str, kept: NDArray[np.bool_], path: Path | None) -> Attribute:
    """A static attribute: its value at the patient's first visit that has one."""
    rows = db.arrays(
        f"""SELECT o.person, first(nfc_normalize(p."{name}") ORDER BY o.position, p."{name}") AS value
            FROM people p JOIN ordered o ON o.patient = p.patient AND p.visit IN (o.visit, '')
            WHERE p."{name}" <> '' GROUP BY o.person"""
    )
    values = np.full(len(kept), -1, dtype=np.int16)
    categories, position = np.unique(np.asarray(rows["value"], dtype=str), return_inverse=True)
    if len(categories) > MAX_CATEGORIES:
        raise InputError(
            f"{len(categories):,} different values",
            path=path,
            column=name,
            expected=f"a property with at most {MAX_CATEGORIES} values",
            remedy="leave it out of --attributes, or band it first",
        )
    values[np.asarray(rows["person"], dtype=np.int64)] = position
    return Attribute(values[kept], tuple(categories.tolist()))


# ---- numbers -------------------------------------------------------------------------------------------------------
# From rows of measurements to one number for each visit and lab. The view `measured` holds patient, visit, code,
# system, domain, value (a number, or NULL), unit, and moment (when, as a number; NULL where the source
# does not say). It may be longer than memory: everything but the last answer is computed in the database.
#: The unit of what has none.
UNITLESS = "1"
#: Which of several values → SQL over the columns value and moment; of values of one time, the last is the highest.
_VALUES = {
    "last": "max({'m': coalesce(m.moment, -1e300), 'v': m.value}).v",
    "first": "min({'m': coalesce(m.moment, -1e300), 'v': m.value}).v",
    "lowest": "min(m.value)",
    "highest": "max(m.value)",
}
# Units are the same whatever their case and blanks; words for none are none.
_UNIT = "regexp_replace(lower({}), '\\s+', '', 'g')"
_NO_UNIT = ("", "unk", "none", "unknown", "1", "nomatchingconcept")


@dataclass(frozen=True)
class Number:
    """A lab that is read: how the source calls it, its unit there, and a code for each value that is kept."""

    system: str
    #: All spellings of its code.
    spellings: tuple[str, ...]
    unit: str
    kept: Mapping[LabValue, Code]
    #: How many rows have it, in this unit.
    n_rows: int


#: (system, code) → rows, unit, unit as it is mostly written, domain: one for each unit.
_Items = dict[tuple[str, str], list[tuple[int, str, str, str]]]


def common_spellings(rows: Iterable[tuple[str, str, str, int]]) -> dict[tuple[str, str], str]:
    """From (system, code) as a source writes it to the code as it is kept; rows are system, code, domain, count.

    Names of drugs and labs that differ in upper and lower case only are one, as most rows write it.

    >>> common_spellings([("DRUG", "Aspirin  81 mg", "drug", 5), ("DRUG", "ASPIRIN 81 MG", "drug", 2)])
    {('DRUG', 'Aspirin  81 mg'): 'Aspirin 81 mg', ('DRUG', 'ASPIRIN 81 MG'): 'Aspirin 81 mg'}
    """
    clean: dict[tuple[str, str], str] = {}
    counts: dict[tuple[str, str], Counter[str]] = {}
    for system, code, domain, n in rows:
        clean[system, code] = normalize_code(code)
        if domain in ("drug", "lab"):
            counts.setdefault((system, clean[system, code].casefold()), Counter())[clean[system, code]] += n
    common = {key: min(found, key=lambda text: (-found[text], text)) for key, found in counts.items()}
    return {(system, code): common.get((system, text.casefold()), text) for (system, code), text in clean.items()}


def select_numbers(
    db: Database, options: ReadOptions, known: Mapping[tuple[str, str], tuple[str, str]]
) -> tuple[list[Number], dict[str, Any]]:
    """The numbers to read, by name, and what the card says of them; what is left out is counted."""
    rows = db.query(
        f"""SELECT system, code, min(domain), {_UNIT.format("unit")} AS u, min(unit),
            count(*) FILTER (value IS NOT NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (value IS NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (patient = '' OR visit = '') FROM measured GROUP BY system, code, u ORDER BY ALL"""
    )
    spelling = common_spellings((system, code, domain, n) for system, code, domain, _, _, n, _, _ in rows)
    items: _Items = {}
    spellings: dict[tuple[str, str], set[str]] = {}
    for system, code, domain, unit, written, n, unreadable, nameless in rows:
        db.drop("values without a patient or visit id", nameless)
        db.drop("values that are no number", unreadable)
        if n:
            item = (system, spelling[system, code])
            spellings.setdefault(item, set()).add(code)
            items.setdefault(item, []).append((n, unit, UNITLESS if unit in _NO_UNIT else written, domain))
    wanted = _wanted_items(items, options)
    numbers, others = [], 0
    for (system, code), of_units in sorted(items.items()):
        n_of_unit: Counter[str] = Counter()
        for n, unit, *_ in of_units:
            n_of_unit[unit] += n
        unit = max(n_of_unit, key=lambda name: (n_of_unit[name], name))
        _, _, written, domain = max(row for row in of_units if row[1] == unit)
        if (system, code) not in wanted:
            others += n_of_unit.total()
            continue
        which: tuple[LabValue, ...] = options.lab_values if domain == "lab" else ("last",)
        text = known.get((system, code), ("", ""))[0]
        kept = {
            name: Code.of(
                f"{code}.{name}" if len(which) > 1 else code,
                system,
                description=_describe_lab(text, name if len(which) > 1 else ""),
                domain=domain,
                unit=written,
            )
            for name in which
        }
        if all(is_code(full.token) and is_code(full.code) for full in kept.values()):
            db.drop("values in another unit than most of their kind", n_of_unit.total() - n_of_unit[unit])
            names = tuple(sorted(spellings[system, code]))
            numbers.append(Number(system, names, unit, kept, n_of_unit[unit]))
        else:
            db.drop("values of codes of characters that cannot be printed, or too long", n_of_unit.total())
    db.drop("values of labs that were not asked for", others)
    return numbers, _numbers_in_card(numbers, options)


def _describe_lab(text: str, which: str) -> str:
    """What a lab is called, and which of its values this is."""
    return f"{text}, {which} of the visit" if text and which else text


def _numbers_in_card(numbers: list[Number], options: ReadOptions) -> dict[str, Any]:
    """How many labs there are and which values of a visit were kept, for the card."""
    labs = sum(any(code.domain == "lab" for code in number.kept.values()) for number in numbers)
    return {"labs": {"items": labs, "values of a visit": list(options.lab_values)}} if labs else {}


def _wanted_items(items: _Items, options: ReadOptions) -> set[tuple[str, str]]:
    """The items that `--labs` asks for; what is no lab is never left out."""
    labs = options.labs
    others = {item for item, rows in items.items() if rows[0][3] != "lab"}
    listed = [item for item in items if item not in others]
    if labs == "all":
        return {*listed, *others}
    if labs.isdigit():
        order = sorted(listed, key=lambda item: (-sum(row[0] for row in items[item]), item))
        return {*order[: int(labs)], *others}
    file = options.labs_file
    text = labs.replace(",", "\n") if file is None else file.read_text(encoding="utf-8", errors="replace")
    names = {line.strip() for line in text.splitlines() if line.strip()}
    # A bare item is that of every system that has it.
    chosen = {item for item in listed if item[1] in names or f"{item[0]}/{item[1]}" in names}
    if listed and not chosen:
        raise UsageError(
            f"--labs {labs}\nexpected: a number, all, items of this source with commas, or a file with one a line; "
            "a single item with its system, such as LAB/50931\nto do: check the items"
        )
    return chosen | others


def collect_numbers(
    db: Database, numbers: list[Number], vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Visit number × size of the vocabulary + code number of every number of a visit, and the numbers."""
    import pyarrow as pa

    spelled = [(number, code, place) for place, number in enumerate(numbers) for code in number.spellings]
    listed = {
        "system": pa.array([number.system for number, _, _ in spelled], pa.string()),
        "code": pa.array([code for _, code, _ in spelled], pa.string()),
        "unit": pa.array([number.unit for number, _, _ in spelled], pa.string()),
        "place": pa.array([place for _, _, place in spelled], pa.int64()),
    }
    db.add("wanted", pa.table(listed))
    which = sorted({name for number in numbers for name in number.kept})
    columns = "".join(f", {_VALUES[name]} AS {name}" for name in which)
    n_numbers = max(len(numbers), 1)
    db.run(
        f"""CREATE TABLE summed AS SELECT o.position * {n_numbers} + w.place AS key,
            count(*) AS n{columns} FROM measured m
            JOIN wanted w ON w.code = m.code AND w.system = m.system AND w.unit = {_UNIT.format("m.unit")}
            JOIN ordered o ON o.patient = m.patient AND o.visit = m.visit WHERE m.value IS NOT NULL GROUP BY 1"""
    )
    n_joined = db.number("SELECT sum(n) FROM summed")
    db.drop("values of visits that are not known", sum(number.n_rows for number in numbers) - n_joined)
    keys, values = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for name in which:
        place = np.array(
            [vocabulary.index[n.kept[name].token] if name in n.kept else -1 for n in numbers], dtype=np.int64
        )
        rows = db.arrays(f"SELECT key, {name} AS value FROM summed")
        # In place, because there may be as many as memory can hold.
        key = np.asarray(rows.pop("key"), dtype=np.int64)
        of_number = place[key % n_numbers]
        key //= n_numbers
        key *= len(vocabulary)
        key += of_number
        there = of_number >= 0
        value = np.asarray(rows.pop("value"), dtype=np.float32)
        keys.append(key if there.all() else key[there])
        values.append(value if there.all() else value[there])
    db.run("DROP TABLE summed")
    return np.concatenate(keys), np.concatenate(values)


# ---- what was lost -------------------------------------------------------------------------------------------------
#: The share of rows, codes or patients that may be dropped without anybody's word.
MOST_DROPPED = 0.01
#: Where a cohort's card says what share its reader allowed.
ALLOWED = "allow dropped"
#: How the reasons begin by which visits and codes are lost. What a policy leaves out as asked (repeats, second choices
#: of a group, visits after a death or beyond a number) is no loss, and neither is an empty cell.
_LOST = {
    "visits": ("visit rows without", "visits without a readable"),
    "codes": ("codes without", "codes of", "codes outside"),
    "patients": ("patients without a visit", "patients without a readable"),
}


class Loss(NamedTuple):
    """How many of what the source holds were dropped, and why."""

    what: str
    dropped: int
    in_source: int
    reasons: dict[str, int]

    @property
    def share(self) -> float:
        """The share of the source that was dropped."""
        return self.dropped / max(self.in_source, 1)

    def __str__(self) -> str:
        why = ", ".join(f"{n:,} {reason}" for reason, n in self.reasons.items())
        return f"{self.dropped:,} of {self.in_source:,} {self.what} ({self.share:.1%}{': ' if why else ''}{why})"


def losses(cohort: Cohort) -> list[Loss]:
    """What was lost of the source of a cohort, for each of visits, codes and patients of which anything was.

    >>> dropped = {"codes of a form that is not allowed": 2, "repeated codes in a visit": 7}
    >>> card = {"dropped": dropped, "in source": {"visits": 9, "codes": 20, "patients": 1}}
    >>> [str(loss) for loss in losses(Cohort.of([[["A"]]], card=card))]
    ['2 of 20 codes (10.0%: 2 codes of a form that is not allowed)']
    """
    dropped, in_source = cohort.card.get("dropped") or {}, cohort.card.get("in source") or {}
    found = []
    for what, beginnings in _LOST.items():
        reasons = {reason: int(n) for reason, n in dropped.items() if reason.startswith(beginnings)}
        n = sum(reasons.values())
        if n and in_source:
            outside = sum(x for reason, x in reasons.items() if reason.startswith("codes outside"))
            found.append(Loss(what, n, in_source[what] + outside, reasons))
    return found


def say_dropped(cohort: Cohort) -> None:
    """Say on the screen what was left out while a cohort was read, and which words were not known."""
    counts = {**(cohort.card.get("dropped") or {}), **(cohort.card.get("stays") or {})}
    if counts:
        say("left out or not known: " + ", ".join(f"{n:,} {reason}" for reason, n in counts.items()))


def require_kept(cohort: Cohort, allowed: float = MOST_DROPPED, path: str | Path | None = None) -> None:
    """Raise where more than the allowed share of visits, codes or patients was dropped while reading.

    >>> card = {"dropped": {"codes of visits that are not known": 2}, "in source": {"codes": 20, "patients": 1}}
    >>> require_kept(Cohort.of([[["A"]]], card=card), allowed=0.2)
    """
    allowed = max(allowed, float(cohort.card.get(ALLOWED) or 0.0))
    too_many = [loss for loss in losses(cohort) if loss.share > allowed]
    if not too_many:
        return
    enough = min(max(round(max(loss.share for loss in too_many) * 1.1 + 0.005, 2), 0.05), 1.0)
    raise InputError(
        "too much of the source would be lost: " + "; ".join(map(str, too_many)),
        path=path,
        expected=f"at most {allowed:.0%} of the visits, codes and patients dropped",
        remedy="check the columns and the form of codes and dates (`adapcla import … --dry-run` shows them);"
        f" if the loss is meant, go on with --allow-dropped {enough:g}",
    )
