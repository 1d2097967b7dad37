"""A cohort as tables of a database, from which every format selects its rows.

`codes`, `patients`, `visits` and `events` are made once by `cohort_tables`; `add_times` adds `stays`, the visits with
their begin and end on a calendar. Ids count from 0 in the order of the cohort and mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.vocabulary import DISCHARGE, LENGTH_OF_STAY, VISIT_KIND
from adapcla.errors import InputError
from adapcla.io.database import Database, quoted

if TYPE_CHECKING:
    import pyarrow as pa

#: Every patient's first visit is on this day: real dates were dropped when the cohort was read.
FIRST_DAY = np.datetime64("2000-01-01", "D")
#: The calendar of every format ends with the year 9999.
LAST_DAY = 2_900_000
#: Patient ids of one width, in a range that no hospital uses.
FIRST_PATIENT = 9_000_000_000_000
#: Visits whose events are handed to the database at once; bounds memory.
_VISITS = 100_000
#: Attributes that hold an age at the first visit, or whether a patient died, and the words that say so.
_AGES, _DEATHS, _YES = ("age_band", "age"), ("died", "death", "deceased"), ("1", "yes", "y", "true", "t")
_OLDEST = 120


class Part(NamedTuple):
    """Some of the patients that are written, by a writer of their own, and where they stand among all."""

    #: All patients of the source, of which those that the format can hold are written.
    whole: Cohort
    #: These patients.
    cohort: Cohort
    number: int = 0
    n_parts: int = 1
    #: How many patients, visits and events the parts before hold: ids go on from there.
    before: tuple[int, int, int] = (0, 0, 0)

    def file(self, folder: Path, table: str, ending: str) -> Path:
        """The file of a table: of its name where there is one part, else one of several in a folder of its name."""
        if self.n_parts == 1:
            return folder / f"{table}{ending}"
        (folder / table).mkdir(parents=True, exist_ok=True)
        return folder / table / f"{self.number:05d}{ending}"


def cohort_tables(db: Database, cohort: Cohort, before: tuple[int, int, int] = (0, 0, 0)) -> None:
    """Make the tables of a cohort; ids go on behind so many patients, visits and events.

    - `codes`: code, token, system, version, bare, description, domain, choice_group, unit; `role` is `kind`, `ending`
      or `length` for codes that describe a visit as a whole, else empty, and `word` is what such a code says.
    - `patients`: patient, birth_year, died, then `attribute_0`, … in the order of their names, and `label_0`, …
    - `visits`: patient, visit, number (in the record, from 0), day, kind, ending, length (in days).
    - `events`: patient, visit, event, code, value.

    >>> with Database() as db:
    ...     cohort_tables(db, Cohort.of([[["A", "B"], ["B"]]]))
    ...     db.query("SELECT visit, token FROM events JOIN codes USING (code) ORDER BY event")
    [(0, 'A'), (0, 'B'), (1, 'B')]
    """
    import pyarrow as pa

    db.add("codes", code_rows(cohort))
    ids = [(name, pa.int64()) for name in ("patient", "visit", "event")]
    schema = pa.schema([*ids, ("code", pa.int32()), ("value", pa.float32())])
    db.add("events", pa.RecordBatchReader.from_batches(schema, _events(cohort, schema, before)))
    rows = {
        "patient": pa.array(cohort.patient_of_visit + before[0]),
        "visit": pa.array(np.arange(cohort.n_visits, dtype=np.int64) + before[1]),
        "number": pa.array(cohort.visit_number),
        "day": pa.nulls(cohort.n_visits, pa.int32()) if cohort.days is None else pa.array(np.asarray(cohort.days)),
    }
    db.add("visit_rows", pa.table(rows))
    db.run(
        """CREATE TABLE visits AS SELECT v.*, d.kind, d.ending, d.length FROM visit_rows v LEFT JOIN (
               SELECT visit, max(word) FILTER (role = 'kind') AS kind, max(word) FILTER (role = 'ending') AS ending,
                   max(value) FILTER (role = 'length') AS length
               FROM events JOIN codes USING (code) WHERE role <> '' GROUP BY visit) d USING (visit)"""
    )
    db.add("patient_rows", _patients(cohort, before[0]))
    db.run(
        """CREATE TABLE patients AS SELECT p.* REPLACE (p.died OR coalesce(d.died, false) AS died)
           FROM patient_rows p LEFT JOIN (
               SELECT patient, bool_or(ending = 'died') AS died FROM visits GROUP BY patient) d
           USING (patient)"""
    )


def add_times(db: Database) -> None:
    """Make `stays`: the visits with `begins` and `ends`.

    A visit begins at midnight of its day and ends at noon, or as much later as it took where its length is known;
    visits of one day share it in their order. Without days, visits stand on consecutive days.
    """
    last = db.number("SELECT max(coalesce(day, number)) FROM visits")
    if last > LAST_DAY:
        raise InputError(
            f"a visit {last:,} days after the first",
            expected=f"at most {LAST_DAY:,}, where calendars end",
            remedy="export to csv, parquet or xlsx, which keep days as numbers",
        )
    shares = "2 * count(*) OVER (PARTITION BY patient, coalesce(day, number))"
    place = "(row_number() OVER (PARTITION BY patient, coalesce(day, number) ORDER BY visit) - 1)"
    db.run(
        f"""CREATE TABLE stays AS SELECT * EXCLUDE (noon), CASE WHEN length IS NULL THEN noon ELSE
                least(begins + to_microseconds(CAST(trunc(least(greatest(length, 0), {LAST_DAY} * 2)
                    * CAST(86400000000 AS DOUBLE)) AS BIGINT)), TIMESTAMP '9999-12-31') END AS ends
            FROM (SELECT *,
                midnight + to_microseconds(86400000000 * (2 * place) // shares) AS begins,
                midnight + to_microseconds(86400000000 * (2 * place + 1) // shares) AS noon
                FROM (SELECT *, {shares} AS shares, {place} AS place,
                    TIMESTAMP '{FIRST_DAY}' + to_days(CAST(coalesce(day, number) AS INTEGER)) AS midnight
                    FROM visits))"""
    )


def attributes_query(cohort: Cohort, without: tuple[str, ...] = ()) -> str:
    """SQL for the known attributes of patients, one row each: patient, place (of the attribute), name, category."""
    parts = [
        f"""SELECT patient, {place} AS place, {quoted(name)} AS name, attribute_{place} AS category FROM patients
            WHERE attribute_{place} IS NOT NULL"""
        for place, name in enumerate(sorted(cohort.attributes))
        if name not in without
    ]
    nothing = "SELECT 0 AS patient, 0 AS place, '' AS name, '' AS category WHERE false"
    return " UNION ALL ".join(parts or [nothing])


def attribute_column(cohort: Cohort, name: str) -> str:
    """The column of an attribute in `patients`; NULL where the cohort lacks it."""
    return (
        f"attribute_{sorted(cohort.attributes).index(name)}" if name in cohort.attributes else "CAST(NULL AS VARCHAR)"
    )


def free_text(column: str) -> str:
    """SQL for free text that no spreadsheet takes for a formula: an apostrophe goes before text that it would."""
    return f"CASE WHEN regexp_matches({column}, '^[=+@''-]') THEN '''' || {column} ELSE {column} END"


def age_in(words: str) -> int | None:
    """The age that a category names, in years: the middle of a band, the bound of an open one, None if it has none.

    >>> [age_in(words) for words in ("60-69", "[60-70)", "90+", "<18", "47", "unclear")]
    [65, 65, 90, 9, 47, None]
    """
    numbers = [int(number) for number in re.findall(r"(?<![0-9])[0-9]{1,3}(?![0-9])", words)]
    if not 1 <= len(numbers) <= 2 or max(numbers) > _OLDEST:
        return None
    if len(numbers) == 1:
        return numbers[0] // 2 if words.startswith("<") else numbers[0]
    low, high = numbers
    return low + (high - low + 1) // 2 if low <= high else None


def birth_years(cohort: Cohort) -> NDArray[np.int64]:
    """The year of birth of each patient, from the age at the first visit and the calendar; 0 where it is unknown.

    >>> from adapcla.data import Attribute
    >>> age = {"age_band": Attribute(np.array([0, -1], dtype=np.int16), ("60-69",))}
    >>> birth_years(Cohort.of([[["A"]], [["A"]]], attributes=age)).tolist()
    [1935, 0]
    """
    name = next((name for name in _AGES if name in cohort.attributes), None)
    if name is None:
        return np.zeros(cohort.n_patients, dtype=np.int64)
    first_year = int(FIRST_DAY.astype("datetime64[Y]").astype(int)) + 1970
    ages = [age_in(words) for words in cohort.attributes[name].categories]
    years = np.array([*(0 if age is None else first_year - age for age in ages), 0], dtype=np.int64)
    return years[cohort.attributes[name].values]


def code_rows(cohort: Cohort) -> pa.Table:
    """The table `codes`."""
    import pyarrow as pa

    listed = cohort.vocabulary.codes
    columns: dict[str, list[str]] = {
        "token": [code.token for code in listed],
        "system": [code.system for code in listed],
        "version": [code.version for code in listed],
        "bare": [code.bare for code in listed],
        "description": [code.description for code in listed],
        "domain": [code.domain for code in listed],
        "choice_group": [code.group for code in listed],
        "unit": [code.unit for code in listed],
        "role": [],
        "word": [],
    }
    for code in listed:
        role, word = "", ""
        for name, group, prefix in (("kind", VISIT_KIND, "KIND/"), ("ending", DISCHARGE, "END/")):
            if code.group == group and code.token.startswith(prefix):
                role, word = name, code.token.removeprefix(prefix)
        if code.token == LENGTH_OF_STAY.token and code.unit:
            role = "length"
        columns["role"].append(role)
        columns["word"].append(word)
    arrays = {name: pa.array(column, pa.string()) for name, column in columns.items()}
    return pa.table({"code": pa.array(np.arange(len(listed), dtype=np.int32)), **arrays})


def _events(cohort: Cohort, schema: pa.Schema, before: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
    """The rows of `events`, some visits at a time."""
    import pyarrow as pa

    for first in range(0, cohort.n_visits, _VISITS):
        last = min(first + _VISITS, cohort.n_visits)
        begin, end = int(cohort.visit_starts[first]), int(cohort.visit_starts[last])
        visit = np.repeat(np.arange(first, last, dtype=np.int64), cohort.codes_per_visit[first:last])
        value = pa.nulls(end - begin, pa.float32())
        if cohort.values is not None:
            numbers = np.asarray(cohort.values[begin:end])
            value = pa.array(numbers, pa.float32(), mask=np.isnan(numbers))
        columns = [
            pa.array(cohort.patient_of_visit[visit] + before[0]),
            pa.array(visit + before[1]),
            pa.array(np.arange(begin, end, dtype=np.int64) + before[2]),
            pa.array(np.asarray(cohort.codes[begin:end])),
            value,
        ]
        yield pa.record_batch(columns, schema=schema)


def _patients(cohort: Cohort, before: int) -> pa.Table:
    """The table `patients`, with the deaths that an attribute tells."""
    import pyarrow as pa

    born = birth_years(cohort)
    died = np.zeros(cohort.n_patients, dtype=bool)
    if (name := next((name for name in _DEATHS if name in cohort.attributes), None)) is not None:
        values, categories = cohort.attributes[name]
        died = np.array([*(words.strip().lower() in _YES for words in categories), False])[values]
    columns = {
        "patient": pa.array(np.arange(cohort.n_patients, dtype=np.int64) + before),
        "birth_year": pa.array(born, pa.int64(), mask=born == 0),
        "died": pa.array(died),
    }
    for place, (_, attribute) in enumerate(sorted(cohort.attributes.items())):
        number = np.asarray(attribute.values).astype(np.int64)
        category = pa.array(number, pa.int64(), mask=number < 0)
        columns[f"attribute_{place}"] = pa.array(attribute.categories, pa.string()).take(category)
    if cohort.labels is not None:
        for place in range(len(cohort.label_names)):
            columns[f"label_{place}"] = pa.array(np.asarray(cohort.labels)[:, place])
    return pa.table(columns)
