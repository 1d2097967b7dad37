"""From rows of text to a cohort: one place for the policies of every source, each counted in the card.

A source loads its tables into a `Workbench` (an out-of-core database with a memory limit), shapes with SQL the two
tables below, and calls `assemble`. All columns are text without surrounding blanks
(the workbench strips them); what is missing is the empty text.

`visits`   patient, visit, date, day, sequence: one or more rows per visit. `date` is a calendar date or time, `day` a
           number of days, `sequence` any order key; each may be empty throughout.
`entries`  patient, visit, code, system, domain: one row per code. `domain` is a domain of a vocabulary.
`people`   optional: patient, visit (empty where the row speaks of all visits), one column for each static attribute.
`results`  optional: the rows of numbers, as `sources.numbers` describes them.
`courses`  optional: kind, ending and length of visits, as `sources.courses` makes them.

Policies: visits stand in the order of date, day, sequence (as number, then as text), visit id (likewise); a visit
without a readable date is dropped if any visit of the table has one; a code is stripped of surrounding blanks and
otherwise kept or dropped, never changed; of two codes of a choice group in a visit the first in the order of codes is
kept; visits after a death are dropped where a source tells stays; patients stand in the order of their ids, which are
then forgotten. So the same rows in another order give the same cohort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Attribute, Code, Cohort, Kind, Origin, Vocabulary
from adapcla.data.code_systems import ICD9, ICD10
from adapcla.data.ragged import since_segment_start, starts_from_sizes
from adapcla.data.vocabulary import CODE_PATTERN, DEATH, DISCHARGE, DISCHARGES, LENGTH_OF_STAY, VISIT_KIND, VISIT_KINDS
from adapcla.data.vocabulary import STAY as STAY
from adapcla.errors import InputError
from adapcla.io import numbers
from adapcla.io.contract import Options
from adapcla.io.workbench import Workbench

#: More distinct codes than this are a wrong column, not a vocabulary.
MAX_CODES = 2_000_000
#: More values than this are not a static attribute.
MAX_CATEGORIES = 200
_IDENTIFIED = "(patient <> '' AND visit <> '')"
#: What the codes of `courses` are called and which choice groups they are of, as any source's codes.
_STAY_WORDS = {("KIND", name): text for name, text in VISIT_KINDS.items()} | {
    ("END", name): text for name, text in DISCHARGES.items()
}
_STAY_WORDS |= {(LENGTH_OF_STAY.system, LENGTH_OF_STAY.code): LENGTH_OF_STAY.description}
_STAY_GROUPS = {
    (system, name): VISIT_KIND if system == "KIND" else DISCHARGE for system, name in _STAY_WORDS if system != "STAY"
}


def assemble(
    bench: Workbench,
    *,
    source: str,
    visit_rule: str,
    options: Options,
    attributes: Sequence[str] = (),
    descriptions: Mapping[tuple[str, str], str] | None = None,
    groups: Mapping[tuple[str, str], str] | None = None,
    results: bool = False,
    courses: bool = False,
    card: Mapping[str, Any] | None = None,
    path: Path | None = None,
    kind: Kind = Kind.REAL,
) -> Cohort:
    """The cohort in the workbench's `visits`, `entries` and (if attributes are named) `people`.

    `options.max_visits`, `options.icd` and `options.level` are applied here, for every source alike.

    Args:
        bench: Holds the tables or views described at the top of this module.
        source: Name of the source, for the card.
        visit_rule: What a visit is and how visits are ordered, in words, for the card.
        options: What the user asked for.
        attributes: Columns of `people` that become static attributes of patients.
        descriptions: (system, code) → what the code means, where the source says so.
        groups: (system, code) → the choice group that the code is of.
        results: Whether there is a table `results`.
        courses: Whether there is a table `courses`.
        card: More lines for the card.
        path: What to name in an error.
        kind: What the data say of themselves, where a format has a place for it.
    """
    _order_visits(bench, path)
    _tell_courses(bench, results, courses)
    known, card = {**(_STAY_WORDS if courses else {}), **(descriptions or {})}, dict(card or {})
    read: list[numbers.Number] = []
    if results or courses:
        read, said = numbers.found(bench, options, known)
        card |= said
    vocabulary, n_usable = _vocabulary(
        bench, read, known, {**(_STAY_GROUPS if courses else {}), **(groups or {})}, path
    )
    entries = _entries(bench, vocabulary, n_usable, read)
    visits = bench.arrays("SELECT person, moment FROM ordered ORDER BY position")
    person = visits["person"].astype(np.int64)
    late = _after_death(bench, vocabulary, entries, person) if courses else None
    kept = _kept_visits(bench, person, entries.visit, late, options.max_visits)
    if not kept.any():
        raise InputError(
            "no patient is left" + _reasons(bench.dropped),
            path=path,
            expected="at least one visit with a code",
            remedy="check the column names, --domains and the code column",
        )
    visits_of = np.bincount(person[kept], minlength=int(person[-1]) + 1)
    cohort = Cohort(
        vocabulary,
        **entries.of(kept),
        patient_starts=starts_from_sizes(visits_of[visits_of > 0].astype(np.int64)),
        days=_days(visits["moment"], kept, visits_of[visits_of > 0]),
        attributes={name: _attribute(bench, name, visits_of > 0, path) for name in attributes},
        card={
            "source": source,
            **Origin(kind).as_card(),
            "visit_rule": visit_rule,
            "options": options.for_card(),
            **card,
            "dropped": dict(bench.dropped),
            "in source": dict(bench.in_source),
        },
    )
    return _finished(cohort, options)


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


def _tell_courses(bench: Workbench, results: bool, courses: bool) -> None:
    """Make the views `told` of all codes and `measured` of all numbers: those of the source, and those of stays."""
    told = ["SELECT patient, visit, code, system, domain FROM entries"]
    measured = ["SELECT patient, visit, code, system, domain, value, unit, moment FROM results"] if results else []
    if courses:
        for system, column in (("KIND", "kind"), ("END", "ending")):
            told.append(f"SELECT patient, visit, {column}, '{system}', '{STAY}' FROM courses WHERE {column} <> ''")
        measured.append(
            f"""SELECT patient, visit, '{LENGTH_OF_STAY.code}' AS code, '{LENGTH_OF_STAY.system}' AS system,
                '{STAY}' AS domain, CAST(days AS FLOAT) AS value, '{LENGTH_OF_STAY.unit}' AS unit,
                CAST(NULL AS DOUBLE) AS moment FROM courses WHERE days IS NOT NULL"""
        )
    bench.run("CREATE VIEW told AS " + " UNION ALL ".join(told))
    if measured:
        bench.run("CREATE VIEW measured AS " + " UNION ALL ".join(measured))


def _after_death(
    bench: Workbench, vocabulary: Vocabulary, entries: _Entries, person: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which visits come after the patient's death, by a visit that ended with it or by its date."""
    died = np.zeros(len(person), dtype=bool)
    if DEATH.token in vocabulary.index:
        died[entries.visit[entries.code == vocabulary.index[DEATH.token]]] = True
    before = np.cumsum(died) - died
    late: NDArray[np.bool_] = before > before[np.searchsorted(person, person, side="left")]
    rows = bench.arrays(
        "SELECT o.position FROM courses c JOIN ordered o ON o.patient = c.patient AND o.visit = c.visit WHERE c.late"
    )
    late[np.asarray(rows["position"], dtype=np.int64)] = True
    return late


def _order_visits(bench: Workbench, path: Path | None) -> None:
    """Make `ordered`: each visit once, with its patient's number, its own number and its day."""
    no_patient, no_visit = bench.query(
        """SELECT count(*) FILTER (patient = ''), count(*) FILTER (patient <> '' AND visit = '')
           FROM visits"""
    )[0]
    bench.drop("visit rows without a patient id", no_patient)
    bench.drop("visit rows without a visit id", no_visit)
    bench.run(
        """CREATE TABLE known AS SELECT patient AS patient, visit AS visit,
           min(days_of(date)) AS date, min(try_cast(day AS DOUBLE)) AS day,
           min(try_cast(sequence AS DOUBLE)) AS rank,
           min(sequence) AS sequence, bool_or(date <> '') AS has_date, bool_or(day <> '') AS has_day
           FROM visits WHERE patient <> '' AND visit <> '' GROUP BY 1, 2"""
    )
    n_patients, n_visits = bench.query("SELECT count(DISTINCT patient), count(*) FROM known")[0]
    bench.in_source |= {"patients": n_patients, "visits": n_visits + no_patient + no_visit}
    bench.run("DELETE FROM known WHERE isnan(day) OR isinf(day)")
    for column in ("date", "day"):
        readable, given = bench.query(f"SELECT count({column}), count(*) FILTER (has_{column}) FROM known")[0]
        if given and not readable:
            raise InputError(
                f"no readable {column} in {given:,} visits",
                path=path,
                expected="2024-01-31 (a time may follow), 20240131 or 31.01.2024; days as numbers",
                remedy=f"name another {column} column; without one, visits stand in the order of their ids",
            )
        if readable:
            unreadable = bench.number(f"SELECT count(*) FROM known WHERE {column} IS NULL")
            bench.drop(f"visits without a readable {column}", unreadable)
            bench.run(f"DELETE FROM known WHERE {column} IS NULL")
            left = bench.number("SELECT count(DISTINCT patient) FROM known")
            bench.drop(f"patients without a readable {column}", n_patients - left)
            n_patients = left
    bench.run(
        """CREATE TABLE ordered AS SELECT patient, visit, dense_rank() OVER (ORDER BY patient) - 1 AS person,
           row_number() OVER (ORDER BY patient, date, day, rank NULLS LAST, sequence,
                              try_cast(visit AS HUGEINT) NULLS LAST, visit) - 1 AS position,
           floor(coalesce(date, day)) AS moment FROM known"""
    )
    bench.run("DROP TABLE known")


def _vocabulary(
    bench: Workbench,
    read: Sequence[numbers.Number],
    descriptions: Mapping[tuple[str, str], str],
    groups: Mapping[tuple[str, str], str],
    path: Path | None,
) -> tuple[Vocabulary, int]:
    """The codes that have an allowed form, and how many entries they have; `positions` is made of their positions."""
    import pyarrow as pa

    rows = bench.query(
        f"""SELECT system, code, min(domain), count(*) FILTER ({_IDENTIFIED}), count(*) FILTER (NOT {_IDENTIFIED})
            FROM told GROUP BY system, code ORDER BY system, code LIMIT {MAX_CODES + 1}"""
    )
    if len(rows) > MAX_CODES:
        raise InputError(
            f"more than {MAX_CODES:,} different codes",
            path=path,
            expected="a vocabulary",
            remedy="name the column that holds codes; this one looks like an identifier",
        )
    kept, empty, bad, n_usable = [], 0, 0, 0
    for system, code, domain, n, _ in rows:
        text, choice = descriptions.get((system, code), ""), groups.get((system, code), "")
        full = Code.of(code, system, description=text, domain=domain, group=choice)
        if n and CODE_PATTERN.fullmatch(code) and CODE_PATTERN.fullmatch(full.token):
            kept.append(full)
            n_usable += n
        else:
            empty, bad = (empty, bad + n) if code else (empty + n, bad)
    bench.in_source["codes"] = sum(row[3] + row[4] for row in rows) - empty
    bench.drop("codes without a patient or visit id", sum(row[4] for row in rows))
    bench.drop("empty code cells", empty)
    bench.drop("codes of a form that is not allowed", bad)
    vocabulary = Vocabulary.of([*(code for number in read for code in number.kept.values()), *kept])
    index = vocabulary.index
    columns = {
        "system": [code.system for code in kept],
        "code": [code.code for code in kept],
        "place": [str(index[code.token]) for code in kept],
    }
    bench.add("positions", [pa.record_batch({name: pa.array(v, pa.string()) for name, v in columns.items()})])
    return vocabulary, n_usable


def _entries(bench: Workbench, vocabulary: Vocabulary, n_usable: int, read: Sequence[numbers.Number]) -> _Entries:
    """Every entry once; one code of a choice group in a visit, and numbers with their values."""
    keys = _keys(bench, len(vocabulary), n_usable)
    values = None
    if read:
        keys, values = _with_numbers(keys, *numbers.entries(bench, list(read), vocabulary))
    entries = _Entries(*np.divmod(keys, max(len(vocabulary), 1)), values)
    if values is not None:
        empty = np.isnan(values) & vocabulary.numbers[entries.code]
        bench.drop("codes of a number without one", int(empty.sum()))
        entries = entries.where(~empty) if empty.any() else entries
    group = vocabulary.group_of_code[entries.code] if vocabulary.groups else np.zeros(0, np.int32)
    grouped = np.flatnonzero(group >= 0)
    if len(grouped):
        choice = entries.visit[grouped] * len(vocabulary.groups) + group[grouped]
        second = np.ones(len(grouped), dtype=bool)
        second[np.unique(choice, return_index=True)[1]] = False
        bench.drop("second choices of a group in a visit", int(second.sum()))
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


def _keys(bench: Workbench, n_codes: int, n_usable: int) -> NDArray[np.int64]:
    """Visit number × size of the vocabulary + code number of every code, ascending, each once."""
    found = bench.arrays(
        f"""SELECT o.position * {n_codes} + CAST(p.place AS BIGINT) AS key
            FROM told e JOIN positions p ON p.code = e.code AND p.system = e.system
            JOIN ordered o ON o.patient = e.patient AND o.visit = e.visit"""
    )
    keys: NDArray[np.int64] = np.asarray(found["key"], dtype=np.int64)
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    bench.drop("codes of visits that are not known", n_usable - len(keys))
    bench.drop("repeated codes in a visit", int(len(keys) - first.sum()))
    return keys[first]


def _kept_visits(
    bench: Workbench,
    person: NDArray[np.int64],
    visit_of: NDArray[np.int64],
    after_death: NDArray[np.bool_] | None,
    max_visits: int | None,
) -> NDArray[np.bool_]:
    """Which visits stay: those with a code that begin before a death, and of each patient the first `max_visits`."""
    kept = np.zeros(len(person), dtype=bool)
    kept[visit_of] = True
    bench.drop("visits without a code", int((~kept).sum()))
    if after_death is not None:
        bench.drop("visits after a death", int((kept & after_death).sum()))
        kept &= ~after_death
    if max_visits is not None:
        before = np.cumsum(kept) - kept
        first_of_person = np.searchsorted(person, person, side="left")
        late = kept & (before - before[first_of_person] >= max_visits)
        bench.drop(f"visits beyond a patient's first {max_visits}", int(late.sum()))
        kept &= ~late
    if len(person):
        left = np.bincount(person[kept], minlength=int(person[-1]) + 1)
        bench.drop("patients without a visit", int((left == 0).sum()))
    return kept


def _days(moments: Any, kept: NDArray[np.bool_], visits_of: NDArray[np.int64]) -> NDArray[np.int32] | None:
    """Days since each patient's first visit, or None where the source has no dates."""
    if np.ma.isMaskedArray(moments) and np.ma.getmaskarray(moments).any():
        return None
    days = np.asarray(moments, dtype=np.float64)[kept]
    since = since_segment_start(days, starts_from_sizes(visits_of.astype(np.int64)))
    return np.clip(since, 0, np.iinfo(np.int32).max).astype(np.int32)


def _attribute(bench: Workbench, name: str, kept: NDArray[np.bool_], path: Path | None) -> Attribute:
    """A static attribute: its value at the patient's first visit that has one."""
    rows = bench.arrays(
        f"""SELECT o.person, first(p."{name}" ORDER BY o.position, p."{name}") AS value
            FROM people p JOIN ordered o ON o.patient = p.patient AND p.visit IN (o.visit, '')
            WHERE p."{name}" <> '' GROUP BY o.person"""
    )
    values = np.full(len(kept), -1, dtype=np.int16)
    found = np.asarray(rows["value"], dtype=str)
    categories, position = np.unique(found, return_inverse=True)
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


def _finished(cohort: Cohort, options: Options) -> Cohort:
    """The cohort in the ICD revision and at the level that were asked for, its codes described where known."""
    from adapcla.data import code_systems

    if options.icd != "apart":
        cohort = code_systems.map_revision(cohort, ICD9 if options.icd == "map9" else ICD10)
    return code_systems.add_descriptions(code_systems.group_codes(cohort, options.level))


def _reasons(dropped: Mapping[str, int]) -> str:
    """What was dropped, as the end of a sentence.

    >>> _reasons({"empty code cells": 2})
    '; left out: 2 empty code cells'
    """
    return "; left out: " + ", ".join(f"{n:,} {reason}" for reason, n in dropped.items()) if dropped else ""
