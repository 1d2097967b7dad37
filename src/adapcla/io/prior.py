"""Reads and writes the prevalences of a site as a small table: `code, prevalence[, denominator]`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from adapcla.console import say
from adapcla.data import Code, Prevalence, Vocabulary
from adapcla.data.vocabulary import CODE_PATTERN
from adapcla.disclosure import SMALLEST_COUNT
from adapcla.errors import InputError, UsageError
from adapcla.files import write_bytes
from adapcla.io.tables import Table, open_table

#: Names of columns that hold something else than a share, and what to do about each.
_WRONG_UNITS = {
    "count": "divide by the number of visits, or add it as a column `denominator`",
    "n": "divide by the number of visits, or add it as a column `denominator`",
    "visits": "divide by the number of visits, or add it as a column `denominator`",
    "percent": "divide by 100 and name the column `prevalence`",
    "pct": "divide by 100 and name the column `prevalence`",
    "per_1000": "divide by 1000 and name the column `prevalence`",
    "odds": "turn odds into shares: odds / (1 + odds)",
}
_COLUMNS = ("code", "prevalence", "denominator")


def read_prevalence(path: str | Path) -> Prevalence:
    """The prevalences in a CSV, TSV or Parquet table, by code string; each bad case is an error that names its row.

    `prevalence` is the share of visits that hold the code, 0 ≤ p < 1. 0 means the code never occurs. An empty cell
    means unknown. `denominator` is the number of visits behind the shares, the same in every row; where every
    prevalence is a whole number and some exceed 1, the denominator turns counts into shares.
    """
    table = open_table(Path(path))
    file = table.files[0]
    codes, values, denominators = _cells(table)
    if not codes:
        raise InputError("no row", path=file, expected="a row for each code", remedy="export the table again")
    _refuse_bad_codes(file, codes)
    n_visits = _denominator(file, denominators)
    share = _shares(file, np.array([_number(file, row, text) for row, text in enumerate(values, 2)]), n_visits)
    order = np.argsort(np.array(codes), kind="stable")
    vocabulary = Vocabulary(tuple(_split(codes[i]) for i in order))
    return Prevalence(vocabulary, share[order], n_visits)


def write_prevalence(prevalence: Prevalence, path: str | Path, min_cell: int = SMALLEST_COUNT) -> int:
    """Write a table that `read_prevalence` reads; codes of 1 to `min_cell` − 1 visits are left out. How many are."""
    if min_cell < 1:
        raise UsageError(
            f"--min-cell {min_cell}\nexpected: 1 or more\nto do: 1 leaves nothing out; {SMALLEST_COUNT} is usual"
        )
    shown = prevalence.suppressed(min_cell)
    lines = ["code,prevalence,denominator"]
    for code, share in zip(shown.vocabulary.tokens, shown.share.tolist(), strict=True):
        if not math.isnan(share):
            lines.append(f"{code},{share!r},{shown.n_visits}")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, ("\n".join(lines) + "\n").encode())
    return int(prevalence.known.sum() - shown.known.sum())


def _cells(table: Table) -> tuple[list[str], list[str], list[str]]:
    """The code, prevalence and denominator cells as text."""
    for name, remedy in _WRONG_UNITS.items():
        if table.has(name) and not table.has("prevalence"):
            raise InputError(
                "another unit than a share",
                path=table.files[0],
                row=1,
                column=name,
                expected="prevalence",
                remedy=remedy,
            )
    columns = {"code": table.column("code"), "prevalence": table.column("prevalence")}
    if table.has("denominator"):
        columns["denominator"] = table.column("denominator")
    unknown = [name for name in table.columns if name.lower() not in _COLUMNS]
    if unknown:
        say(f"{table.files[0].name}: columns not used: {', '.join(unknown)}")
    cells: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for batch in table.batches(columns):
        for name in columns:
            cells[name] += [text.strip() for text in batch.column(name).to_pylist()]
    return cells["code"], cells["prevalence"], cells["denominator"]


def _refuse_bad_codes(file: Path, codes: list[str]) -> None:
    """Raise on a code of a form that is not allowed, or that comes twice."""
    seen: dict[str, int] = {}
    for row, code in enumerate(codes, 2):
        if not CODE_PATTERN.fullmatch(code):
            raise InputError(
                "no code" if not code else "a code of a form that is not allowed",
                path=file,
                row=row,
                column="code",
                expected=CODE_PATTERN.pattern,
                remedy="write the code as the cohort's vocabulary does",
            )
        if code in seen:
            raise InputError(
                f"the code of row {seen[code]} again",
                path=file,
                row=row,
                column="code",
                expected="each code once",
                remedy="keep one of the rows",
            )
        seen[code] = row


def _number(file: Path, row: int, text: str) -> float:
    """The number in a cell; NaN where the cell is empty, which means unknown."""
    if not text:
        return math.nan
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    found = "a percentage" if text.endswith("%") else "NaN or infinity" if _is_special(text) else "not a number"
    remedy = "divide by 100" if text.endswith("%") else "leave the cell empty if the prevalence is unknown"
    raise InputError(found, path=file, row=row, column="prevalence", expected="a share such as 0.05", remedy=remedy)


def _is_special(text: str) -> bool:
    return text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def _denominator(file: Path, cells: list[str]) -> int | None:
    """The number of visits behind the shares, if the table has it."""
    distinct = {text for text in cells if text}
    if not distinct:
        return None
    number = next(iter(distinct))
    if len(distinct) > 1 or not number.isascii() or not number.isdigit() or int(number) < 1 or len(number) > 15:
        raise InputError(
            "no single whole number",
            path=file,
            column="denominator",
            expected="the number of visits behind all shares, the same in every row",
            remedy="leave the column out if it is unknown",
        )
    return int(number)


def _shares(file: Path, values: np.ndarray, n_visits: int | None) -> np.ndarray:
    """Values as shares: counts are divided by the denominator; percentages and shares of 1 are refused."""

    def refuse(bad: np.ndarray, found: str, expected: str, remedy: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0]) + 2
            raise InputError(found, path=file, row=row, column="prevalence", expected=expected, remedy=remedy)

    known = values[~np.isnan(values)]
    refuse(values < 0, "a negative prevalence", "0 ≤ prevalence < 1", "check the export")
    if known.size and known.max() > 1 and n_visits is not None and bool((known == np.floor(known)).all()):
        say(f"{file.name}: whole numbers over 1, taken as counts of {n_visits:,} visits")
        values = values / n_visits
        refuse(values > 1, "a count over the denominator", f"at most {n_visits}", "check the denominator")
    elif known.size and 1 < known.max() <= 100:
        refuse(values > 1, "over 1; the column looks like percentages", "shares of visits", "divide by 100")
    refuse(values > 1, "over 1", "0 ≤ prevalence < 1", "give shares of visits; for counts add a column `denominator`")
    refuse(
        values == 1,
        "a prevalence of 1",
        "0 ≤ prevalence < 1",
        "a code in every visit has no finite log-odds; leave it out",
    )
    return values


def _split(token: str) -> Code:
    """A code from its token: what stands before the first stroke is the system.

    >>> _split("ICD9CM/4019").system
    'ICD9CM'
    """
    system, stroke, code = token.partition("/")
    return Code.of(code, system) if stroke and code else Code.of(token)
