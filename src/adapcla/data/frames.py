"""Data frames of pandas, polars and pyarrow in and out, through narwhals: none of them has to be installed for another.

A frame has one row for each code, or one for each visit with the codes in one cell or several columns. What is dropped
is counted by reason, as when a file is read; errors name columns and never show a cell.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adapcla.data.attributes import Attribute
from adapcla.data.ragged import starts_from_sizes
from adapcla.data.vocabulary import (
    DISCHARGES,
    LENGTH_OF_STAY,
    STAY,
    VISIT_KINDS,
    Code,
    Vocabulary,
    discharge_code,
    is_code,
    normalize_code,
    visit_kind_code,
)
from adapcla.errors import InputError, UsageError, nearest

Backend = Literal["polars", "pandas", "pyarrow"]
Form = Literal["long", "wide", "visits"]
#: Cells of a wide frame at most; beyond that the long one is wanted.
MOST_CELLS = 200_000_000
#: Categories of an attribute at most.
_MOST_CATEGORIES = 1000
#: The codes of a visit as a whole, which are members of choice groups.
_STAY_CODES = {
    code.token: code for code in (*map(visit_kind_code, VISIT_KINDS), *map(discharge_code, DISCHARGES), LENGTH_OF_STAY)
}


@dataclass
class FrameContent:
    """What a frame says of patients, as the arrays of a cohort."""

    vocabulary: Vocabulary
    codes: NDArray[np.int32]
    visit_starts: NDArray[np.int64]
    patient_starts: NDArray[np.int64]
    days: NDArray[np.int32] | None
    values: NDArray[np.float32] | None
    attributes: dict[str, Attribute]
    dropped: dict[str, int] = field(default_factory=dict)
    in_source: dict[str, int] = field(default_factory=dict)


def is_frame(thing: object) -> bool:
    """Whether this is a data frame that can be read.

    >>> is_frame({"patient": [1]})
    False
    """
    import narwhals as nw

    read = nw.from_native(thing, pass_through=True)
    return isinstance(read, nw.DataFrame | nw.LazyFrame)


def read_frame(
    frame: Any,
    *,
    patient: str,
    codes: str | Sequence[str],
    visit: str = "",
    date: str = "",
    day: str = "",
    attributes: Sequence[str] = (),
    system: str = "",
    domain: str = "diagnosis",
    separator: str = "",
    value: str = "",
    unit: str = "",
) -> FrameContent:
    """The patients of a frame; `Cohort.from_frame` says what the columns mean."""
    table = _Table(frame)
    columns = (codes,) if isinstance(codes, str) else tuple(codes)
    given = {"patient": patient, "visit": visit, "date": date, "day": day, "value": value, "unit": unit}
    table.require(
        {**{k: name for k, name in given.items() if name}, **{f"codes[{i}]": c for i, c in enumerate(columns)}}
    )
    table.require({f"attributes[{i}]": name for i, name in enumerate(attributes)})
    if not (visit or date or day):
        raise UsageError("from_frame: what tells visits apart?\nto do: name visit=, date= or day=")
    if not columns:
        raise UsageError("from_frame: codes=() names no column\nto do: name the column, or the columns, of codes")
    dropped: Counter[str] = Counter()

    ids, moments = table.texts(patient), table.moments(date, day)
    keys = table.texts(visit) if visit else ["" if math.isnan(m) else str(math.floor(m)) for m in moments.tolist()]
    known = np.array([bool(one and key) for one, key in zip(ids, keys, strict=True)], dtype=bool)
    dropped["visit rows without a patient, a visit or a readable date"] = int((~known).sum())
    numbers = _ranks([one if ok else "" for one, ok in zip(ids, known, strict=True)])
    visits = _order_visits(numbers, keys, moments, known, dated=bool(date or day))
    dropped["visits without a readable date"] = visits.n_undated

    row, tokens, found = _read_codes(table, columns, system, domain, separator, unit if value else "", dropped)
    measured = table.numbers(value)[row] if value else None
    at = visits.of_row[row]
    known_entries = (at >= 0) & (tokens >= 0)
    dropped["codes of visits that are not known"] = int(((at < 0) & (tokens >= 0)).sum())
    row, tokens, at = row[known_entries], tokens[known_entries], at[known_entries]
    measured = None if measured is None else measured[known_entries]
    content = _assemble(found, tokens, at, measured, visits, dropped)
    rows_of = {name: table.texts(name) for name in attributes}
    content.attributes = {
        _attribute_name(name): _attribute(name, texts, visits, content_patients=visits.kept_patients)
        for name, texts in rows_of.items()
    }
    content.dropped = {reason: n for reason, n in dropped.items() if n}
    content.in_source = {
        "visits": visits.n_seen,
        "codes": len(row) + dropped["codes of characters that cannot be printed, or too long"],
    }
    content.in_source["patients"] = len(set(filter(None, ids)))
    return content


def build_frame(columns: Mapping[str, Any], backend: Backend = "polars") -> Any:
    """A frame of these columns, of the library that is asked for.

    >>> build_frame({"a": [1, 2]}).shape
    (2, 1)
    """
    import narwhals as nw

    if backend not in ("polars", "pandas", "pyarrow"):
        raise UsageError(f"backend {backend!r}\nexpected: polars, pandas or pyarrow")
    try:
        return nw.from_dict(dict(columns), backend=backend).to_native()
    except ModuleNotFoundError:
        raise UsageError(f"{backend} is not installed\nto do: pip install {backend}, or choose polars") from None


# ---- reading ----------------------------------------------------------------------------------------------
class _Table:
    """The columns of a frame as lists and arrays."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        read = nw.from_native(frame, pass_through=True)
        if isinstance(read, nw.LazyFrame):
            read = read.collect()
        if not isinstance(read, nw.DataFrame):
            raise UsageError(f"{type(frame).__name__} is no data frame\nexpected: one of pandas, polars or pyarrow")
        self.frame = read
        self.columns = [str(name) for name in read.columns]

    def __len__(self) -> int:
        return len(self.frame)

    def require(self, columns: Mapping[str, str]) -> None:
        """Raise where a column that was named is not there."""
        for what, name in columns.items():
            if name not in self.columns:
                raise UsageError(f"from_frame: no column {name!r} for {what}; {nearest(name, self.columns)}")

    def cells(self, name: str) -> list[Any]:
        """The cells of a column as Python objects."""
        return self.frame.get_column(name).to_list()

    def texts(self, name: str) -> list[str]:
        """The cells of a column as trimmed text, "" for a missing one; 11.0 is 11."""
        return [_as_text(cell) for cell in self.cells(name)]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The cells of a column as numbers, NaN for a missing one."""
        return np.array([_as_number(cell) for cell in self.cells(name)], dtype=np.float64)

    def moments(self, date: str, day: str) -> NDArray[np.float64]:
        """Days since some fixed day, by a column of dates or of day numbers; NaN where there is none."""
        if not date:
            return self.numbers(day) if day else np.full(len(self), np.nan)
        cells = self.cells(date)
        moments = np.array([_as_day(cell) for cell in cells], dtype=np.float64)
        missing = np.array([_as_text(cell) == "" for cell in cells], dtype=bool)
        if len(cells) and not missing.all() and np.isnan(moments[~missing]).mean() > 0.5:
            raise InputError(
                "dates that are not readable",
                column=date,
                expected="a column of dates or times, or text such as 2024-05-31",
                remedy="turn the column into dates first; day numbers go to day=",
            )
        return moments


def _as_text(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    text = str(cell).strip()
    return "" if text in ("NaT", "<NA>") else text


def _as_number(cell: Any) -> float:
    try:
        number = float(cell) if cell is not None else math.nan
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _as_day(cell: Any) -> float:
    """Days since year 1 of a date, a time, or a text in ISO form."""
    if isinstance(cell, str):
        try:
            cell = datetime.datetime.fromisoformat(cell.strip())
        except ValueError:
            return math.nan
    if isinstance(cell, datetime.datetime):
        if cell != cell:  # pandas' NaT, which is a datetime
            return math.nan
        return cell.toordinal() + (cell.hour * 3600 + cell.minute * 60 + cell.second) / 86400
    return float(cell.toordinal()) if isinstance(cell, datetime.date) else math.nan


def _ranks(texts: Sequence[str]) -> NDArray[np.int64]:
    """The place of each text among the distinct ones, in text order; −1 for no text."""
    place = {text: number for number, text in enumerate(sorted(set(texts) - {""}))}
    return np.array([place.get(text, -1) for text in texts], dtype=np.int64)


@dataclass
class _Visits:
    """The visits in the order of the cohort."""

    #: The visit of each row, −1 where there is none.
    of_row: NDArray[np.int64]
    #: Patient and day (NaN where the frame has none) of each visit.
    patient: NDArray[np.int64]
    day: NDArray[np.float64]
    n_seen: int
    n_undated: int
    #: The patients that are left, by their former number; set once codes are known.
    kept_patients: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def _order_visits(
    patients: NDArray[np.int64],
    keys: Sequence[str],
    moments: NDArray[np.float64],
    known: NDArray[np.bool_],
    dated: bool,
) -> _Visits:
    """Visits by patient, day, number of the visit and its text; a visit begins with the first of its rows."""
    place = _ranks([key if ok else "" for key, ok in zip(keys, known, strict=True)])
    rows = np.flatnonzero(known)
    pairs, visit_of = np.unique(np.stack([patients[rows], place[rows]], axis=1), axis=0, return_inverse=True)
    visit_of = visit_of.ravel()
    begin = np.full(len(pairs), np.inf)
    np.fmin.at(begin, visit_of, moments[rows])
    names = sorted({keys[row] for row in rows.tolist()})
    as_number = np.array([float(name) if name.lstrip("-").isdigit() else np.inf for name in names], dtype=np.float64)
    there = np.isfinite(begin) if dated else np.ones(len(pairs), dtype=bool)
    day = np.floor(begin) if dated else np.full(len(pairs), np.nan)
    order = np.lexsort((pairs[:, 1], as_number[pairs[:, 1]], begin, pairs[:, 0]))
    order = order[there[order]]
    new = np.full(len(pairs), -1, dtype=np.int64)
    new[order] = np.arange(len(order))
    of_row = np.full(len(known), -1, dtype=np.int64)
    of_row[rows] = new[visit_of]
    return _Visits(of_row, pairs[order, 0], day[order], len(pairs), int((~there).sum()))


def _read_codes(
    table: _Table, columns: Sequence[str], system: str, domain: str, separator: str, unit: str, dropped: Counter[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Code]]:
    """The row of each code, its number among the codes that were found (−1 for a bad one), and these."""
    systems, domains = (table.texts(name) if name in table.columns else None for name in (system, domain))
    units = table.texts(unit) if unit else None
    number_of: dict[tuple[str, str, str, str], int] = {}
    rows: list[int] = []
    numbers: list[int] = []
    for column in columns:
        for row, cell in enumerate(table.cells(column)):
            for text in _pieces(cell, separator):
                if not text:
                    dropped["empty code cells"] += len(columns) == 1 and not separator
                    continue
                key = (
                    text,
                    systems[row] if systems is not None else system,
                    domains[row] if domains is not None else domain,
                    units[row] if units is not None else "",
                )
                rows.append(row)
                numbers.append(number_of.setdefault(key, len(number_of)))
    found = [Code.of(normalize_code(text), system=of, domain=kind) for text, of, kind, _ in number_of]
    found = [_STAY_CODES.get(code.token, code) if code.domain == STAY else code for code in found]
    found = [
        code._replace(unit=measure) if measure else code for code, (*_, measure) in zip(found, number_of, strict=True)
    ]
    good = np.array([is_code(code.token) for code in found], dtype=bool)
    out = np.array(numbers, dtype=np.int64)
    if len(out):
        dropped["codes of characters that cannot be printed, or too long"] += int((~good[out]).sum())
        out = np.where(good[out], out, -1)
    return np.array(rows, dtype=np.int64), out, found


def _pieces(cell: Any, separator: str) -> Iterable[str]:
    """The codes in a cell: a list of them, a text with a separator, or one code."""
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        return [_as_text(piece) for piece in cell]
    text = _as_text(cell)
    return [piece.strip() for piece in text.split(separator) if piece.strip()] if separator else [text]


def _assemble(
    found: list[Code],
    tokens: NDArray[np.int64],
    visit: NDArray[np.int64],
    measured: NDArray[np.float64] | None,
    visits: _Visits,
    dropped: Counter[str],
) -> FrameContent:
    """The arrays of a cohort from entries; emptied visits and patients go, counted."""
    unit_of = _units(found, tokens, measured)
    if measured is not None:
        numeric = np.array([code.token in unit_of for code in found], dtype=bool)[tokens]
        unit = np.array([code.unit == unit_of.get(code.token) for code in found], dtype=bool)[tokens]
        keep = ~numeric | (np.isfinite(measured) & unit)
        dropped["measurements without a value, or in another unit than most"] = int((~keep).sum())
        tokens, visit, measured = tokens[keep], visit[keep], measured[keep]
    final = [code._replace(unit=unit_of.get(code.token, "")) for code in found]
    used = {final[token].token: final[token] for token in np.unique(tokens).tolist()}
    vocabulary = Vocabulary.of(used.values())
    position = vocabulary.positions([code.token for code in final]) if len(final) else np.zeros(0, dtype=np.int64)
    n = max(len(vocabulary), 1)
    # Of several values of a number in a visit the last row counts.
    keys, last = np.unique((visit * n + position[tokens])[::-1], return_index=True)
    last = len(tokens) - 1 - last
    dropped["repeated codes in a visit"] = len(tokens) - len(keys)
    visit_of, code_of = np.divmod(keys, n)
    sizes = np.bincount(visit_of, minlength=len(visits.patient))
    there = sizes > 0
    dropped["visits left empty"] = int((~there).sum())
    patient = visits.patient[there]
    visits.kept_patients, per_patient = np.unique(patient, return_counts=True)
    dropped["patients without a visit that has a code"] = len(np.unique(visits.patient)) - len(visits.kept_patients)
    starts = starts_from_sizes(per_patient.astype(np.int64))
    day = visits.day[there]
    days = None
    if len(day) and not np.isnan(day).any():
        days = (day - np.repeat(day[starts[:-1]], per_patient)).astype(np.int32)
    values = None
    if measured is not None and vocabulary.numbers.any():
        values = np.where(vocabulary.numbers[code_of], measured[last], np.nan).astype(np.float32)
    return FrameContent(
        vocabulary, code_of.astype(np.int32), starts_from_sizes(sizes[there].astype(np.int64)), starts, days, values, {}
    )


def _units(found: list[Code], tokens: NDArray[np.int64], measured: NDArray[np.float64] | None) -> dict[str, str]:
    """The unit of each number: that of most of its values, "1" where there is none."""
    if measured is None:
        return {}
    counts: dict[str, Counter[str]] = {}
    for token, n in Counter(tokens[np.isfinite(measured)].tolist()).items():
        code = found[token]
        counts.setdefault(code.token, Counter())[code.unit] += n
    units = {token: min(c, key=lambda unit: (-c[unit], unit)) for token, c in counts.items()}
    for i, code in enumerate(found):
        if code.token in units and not code.unit and units[code.token] in ("", "1"):
            found[i] = code._replace(unit="1")
    return {token: unit or "1" for token, unit in units.items()}


def _attribute_name(column: str) -> str:
    """The name of an attribute, which is that of a file too."""
    return "".join(mark if mark.isalnum() and mark.isascii() else "_" for mark in column.strip())


def _attribute(name: str, texts: Sequence[str], visits: _Visits, content_patients: NDArray[np.int64]) -> Attribute:
    """A property of patients: its value at the first visit that has one."""
    categories = sorted({text for text, visit in zip(texts, visits.of_row, strict=True) if text and visit >= 0})
    if len(categories) > _MOST_CATEGORIES:
        raise InputError(
            f"{len(categories):,} different values",
            column=name,
            expected=f"a property with at most {_MOST_CATEGORIES:,} values",
            remedy="leave it out of attributes, or band it first",
        )
    number = {text: place for place, text in enumerate(categories)}
    value_of: dict[int, int] = {}
    rows = [row for row in np.argsort(visits.of_row, kind="stable").tolist() if visits.of_row[row] >= 0 and texts[row]]
    for row in rows:
        value_of.setdefault(int(visits.patient[visits.of_row[row]]), number[texts[row]])
    values = np.array([value_of.get(int(patient), -1) for patient in content_patients], dtype=np.int16)
    return Attribute(values, tuple(categories))
