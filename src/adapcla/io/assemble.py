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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Attribute, Code, Cohort, Kind, Origin, Vocabulary, code_systems
from adapcla.data.code_systems import ICD9, ICD10
from adapcla.data.ragged import since_segment_start, starts_from_sizes
from adapcla.data.storage import GrowingArray
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
from adapcla.errors import InputError
from adapcla.io import numbers
from adapcla.io.database import Database
from adapcla.io.options import ReadOptions

#: More distinct codes than this are a wrong column, not a vocabulary.
MAX_CODES = 2_000_000
#: What a source without patients of its own says of them.
NOBODY = "SELECT '' AS patient, '' AS visit, '' AS sex, '' AS birth, '' AS age, '' AS death WHERE false"
#: The events of a source that is read for its stays alone.
NO_EVENTS = """SELECT '' AS patient, '' AS visit, '' AS time, '' AS system, '' AS code, '' AS domain, false AS measured,
    '' AS value, '' AS unit WHERE false"""
#: Entries that are held in memory at a time, about.
_ENTRIES_AT_ONCE = 1 << 21
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
    read, said = numbers.select_numbers(db, options, known) if with_numbers else ([], {})
    vocabulary, n_usable = _build_vocabulary(db, read, known, path)
    _make_entries(db, vocabulary, n_usable, read, "stay" in options.domains)
    make_people(db, found.known, found.attributes)
    categories = {name: make_attribute(db, name, path) for name in (*found.known, *found.attributes)}
    arrays = _collect(db, vocabulary, bool(read), options, list(categories))
    if len(arrays["patient_starts"]) == 1:
        raise InputError(
            "no patient is left" + _reasons(db.dropped),
            path=path,
            expected="at least one visit with a code",
            remedy="check the column names, --domains and the code column",
        )
    attributes = {name: Attribute(arrays.pop(f"attribute_{name}"), texts) for name, texts in categories.items()}
    cohort = Cohort(
        vocabulary,
        **arrays,
        attributes=attributes,
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
def _build_vocabulary(
    db: Database,
    read: Sequence[numbers.Number],
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
    spelling = numbers.common_spellings((system, code, domain, n) for system, code, domain, n, _ in rows)
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


def _make_entries(
    db: Database, vocabulary: Vocabulary, n_usable: int, read: Sequence[numbers.Number], stays: bool
) -> None:
    """Make `coded_entries`, `measured_entries` and `moments`, all in the order of visits.

    They may be longer than memory; what is made of them is made of some patients at a time.
    """
    db.run(
        """CREATE TABLE coded_entries AS SELECT o.position, p.place
           FROM coded e JOIN positions p ON p.code = e.code AND p.system = e.system
           JOIN ordered o ON o.patient = e.patient AND o.visit = e.visit ORDER BY o.position"""
    )
    db.drop("codes of visits that are not known", n_usable - db.number("SELECT count(*) FROM coded_entries"))
    if read:
        numbers.make_measured_entries(db, list(read), vocabulary)
    late = "LEFT JOIN stays s ON s.patient = o.patient AND s.visit = o.visit" if stays else ""
    db.run(
        f"""CREATE TABLE moments AS SELECT o.position, o.person, o.moment,
            {"coalesce(s.late, false)" if stays else "false"} AS late FROM ordered o {late} ORDER BY o.position"""
    )


# ---- some patients at a time --------------------------------------------------------------------------------
class _Entries(NamedTuple):
    """The visit, the code and (where there are numbers) the number of every entry, in the order of visits and codes."""

    visit: NDArray[np.int64]
    code: NDArray[np.int64]
    values: NDArray[np.float32] | None

    def where(self, keep: NDArray[np.bool_]) -> _Entries:
        """These entries alone."""
        return _Entries(self.visit[keep], self.code[keep], None if self.values is None else self.values[keep])


def _collect(
    db: Database, vocabulary: Vocabulary, numbers: bool, options: ReadOptions, attributes: Sequence[str]
) -> dict[str, Any]:
    """The arrays of the cohort by name, and for each attribute `attribute_NAME`, on disk where they are large."""
    n_people, n_dated, n_visits = db.query("SELECT coalesce(max(person) + 1, 0), count(moment), count(*) FROM moments")[
        0
    ]
    dated = n_dated == n_visits
    kinds: dict[str, type[np.generic]] = {"codes": np.int32, "visit_starts": np.int64, "patient_starts": np.int64}
    kinds |= {"days": np.int32} if dated else {}
    kinds |= {"values": np.float32} if numbers else {}
    kinds |= {f"attribute_{name}": np.int16 for name in attributes}
    growing = {name: GrowingArray(kind) for name, kind in kinds.items()}
    ends = {"visit_starts": 0, "patient_starts": 0}
    for name in ends:
        growing[name].append(np.zeros(1, dtype=np.int64))
    for first, last in _people_at_once(db, n_people):
        for name, part in _some_patients(db, vocabulary, numbers, options, attributes, first, last).items():
            if name in ends:
                # Sizes become starts.
                part = ends[name] + np.cumsum(part, dtype=np.int64)
                ends[name] = int(part[-1]) if len(part) else ends[name]
            if name in growing:
                growing[name].append(part)
    return {name: array.whole() for name, array in growing.items()}


def _people_at_once(db: Database, n_people: int) -> Iterator[tuple[int, int]]:
    """First and last number of patients that are looked at together, so that their entries fit into memory."""
    there = db.number("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'measured_entries'")
    n_entries = sum(db.number(f"SELECT count(*) FROM {name}_entries") for name in ("coded", "measured")[: 1 + there])
    step = max(1, n_people * _ENTRIES_AT_ONCE // max(n_entries, 1))
    return ((low, min(low + step, n_people) - 1) for low in range(0, n_people, step))


def _some_patients(
    db: Database,
    vocabulary: Vocabulary,
    numbers: bool,
    options: ReadOptions,
    attributes: Sequence[str],
    first: int,
    last: int,
) -> dict[str, NDArray[Any]]:
    """The arrays of some patients, with the sizes of visits and patients in the place of their starts."""
    rows = db.arrays(
        f"SELECT position, person, moment, late FROM moments WHERE person BETWEEN {first} AND {last} ORDER BY position"
    )
    person, begin = rows["person"].astype(np.int64) - first, int(rows["position"][0])
    entries = _entries_of(db, vocabulary, numbers, begin, len(person))
    late = None
    if "stay" in options.domains:
        died = np.zeros(len(person), dtype=bool)
        if DEATH.token in vocabulary.index:
            died[entries.visit[entries.code == vocabulary.index[DEATH.token]]] = True
        late = late_visits(died, person, np.asarray(rows["late"], dtype=bool))
    kept = _kept_visits(db, person, entries.visit, late, options.max_visits)
    entries = entries.where(kept[entries.visit])
    visits_of = np.bincount(person[kept], minlength=last - first + 1)
    stay = visits_of > 0
    out: dict[str, NDArray[Any]] = {
        "codes": entries.code.astype(np.int32),
        "visit_starts": np.bincount(entries.visit, minlength=len(kept))[kept],
        "patient_starts": visits_of[stay],
    }
    if entries.values is not None:
        out["values"] = entries.values
    if not np.ma.getmaskarray(rows["moment"]).any():
        out["days"] = _days(np.asarray(rows["moment"], dtype=np.float64)[kept], visits_of[stay])
    for name in attributes:
        known = db.arrays(f'SELECT person, place FROM "static_{name}" WHERE person BETWEEN {first} AND {last}')
        places = np.full(len(stay), -1, dtype=np.int16)
        places[known["person"].astype(np.int64) - first] = known["place"]
        out[f"attribute_{name}"] = places[stay]
    return out


def _entries_of(db: Database, vocabulary: Vocabulary, numbers: bool, begin: int, n_visits: int) -> _Entries:
    """Every entry of some visits once; one code of a choice group in a visit, and numbers with their values."""
    size = max(len(vocabulary), 1)
    where = f"WHERE position BETWEEN {begin} AND {begin + n_visits - 1}"
    key = f"(position - {begin}) * {size} + place AS key"
    keys = np.sort(db.arrays(f"SELECT {key} FROM coded_entries {where}")["key"].astype(np.int64))
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    db.drop("repeated codes in a visit", int(len(keys) - first.sum()))
    keys, values = keys[first], None
    if numbers:
        measured = db.arrays(f"SELECT {key}, value FROM measured_entries {where}")
        keys, values = _with_numbers(
            keys, measured["key"].astype(np.int64), np.asarray(measured["value"], dtype=np.float32)
        )
    entries = _Entries(*np.divmod(keys, size), values)
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


def _days(moments: NDArray[np.float64], visits_of: NDArray[np.int64]) -> NDArray[np.int32]:
    """Days since each patient's first visit."""
    since = since_segment_start(moments, starts_from_sizes(visits_of.astype(np.int64)))
    return np.clip(since, 0, np.iinfo(np.int32).max).astype(np.int32)


def _reasons(dropped: Mapping[str, int]) -> str:
    """What was dropped, as the end of a sentence.

    >>> _reasons({"empty code cells": 2})
    '; left out: 2 empty code cells'
    """
    return "; left out: " + ", ".join(f"{n:,} {reason}" for reason, n in dropped.items()) if dropped else ""


# ---- visits and their order --------------------------------------------------------------------------------
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
