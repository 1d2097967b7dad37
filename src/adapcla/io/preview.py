"""A first look at a source before it is read: what its columns are taken for, what is left out, how long it takes.

The head of the file goes the way that the whole file would go, so that a problem shows now. Names and kinds of columns
are shown and five rows with their values masked, never a cell. The first line of a file without a header is a
patient's: names of columns are kept back where it does not look like a header.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from adapcla.data import Cohort
from adapcla.errors import AdapclaError, InputError
from adapcla.io import ReadOptions, reader_of
from adapcla.io.assemble import assemble
from adapcla.io.codebook import read_export
from adapcla.io.database import Database
from adapcla.io.losses import MOST_DROPPED, require_kept
from adapcla.io.readers import table as any_table
from adapcla.io.tables import ENDINGS, Table, open_bytes, open_table

#: Rows of a table that are tried, and rows that are shown.
FIRST_ROWS, SHOWN_ROWS = 20_000, 5
#: A folder of less than this is tried as a whole, a larger one is only looked at.
SMALL_BYTES = 20_000_000
#: Tables of a folder that are listed.
_MOST_TABLES = 40
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{4}/\d\d/\d\d|\d{1,2}[./-]\d{1,2}[./-](\d\d){1,2}.*")
_WORD = re.compile(r"[^\W\d_][^\W\d]*([ ./-][^\W\d]+)*")


@dataclass(frozen=True)
class Column:
    """A column of a table: its name (empty where the first line is no header), what its cells look like, its part."""

    name: str
    kind: str
    part: str


@dataclass(frozen=True)
class Preview:
    """What a source holds, as far as its beginning tells."""

    source: str
    bytes: int
    #: The message that reading would end with; None where it would not.
    problem: str | None = None
    #: The columns of a table, whether its first line names them, and some rows with all letters and digits masked.
    columns: tuple[Column, ...] = ()
    header: bool = True
    rows: tuple[tuple[str, ...], ...] = ()
    #: Names and bytes of the tables of a folder, the largest first.
    tables: tuple[tuple[str, int], ...] = ()
    #: What the columns were taken for, in one line; and what was taken for granted about text, dates and numbers.
    understood: str = ""
    taken_for: dict[str, str] = field(default_factory=dict)
    #: How much was tried: `all`, so many rows, or nothing of a large folder.
    tried: str | int | None = None
    patients: int = 0
    visits: int = 0
    codes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    #: The systems of the codes and how many codes each has; local codes are of none.
    systems: dict[str, int] = field(default_factory=dict)
    #: Rough time for reading the whole file on this machine.
    seconds: float | None = None

    def content(self) -> dict[str, Any]:
        """The preview as JSON."""
        return asdict(self) | {"tables": [{"name": name, "bytes": size} for name, size in self.tables]}


def preview(source: str, path: str | Path, allow_dropped: float = MOST_DROPPED, **options: Any) -> Preview:
    """What a source holds and what reading it would leave out, as far as its beginning tells."""
    given, path = ReadOptions.of(options), Path(path)
    reader = reader_of(source)
    if not path.exists():
        raise InputError("no such file", path=path, remedy="check the path")
    found: dict[str, Any] = {"source": source, "bytes": n_bytes(path)}
    if source == "table":
        return Preview(**found, **_of_table(path, given, allow_dropped))
    found["tables"] = _tables_in(path)
    if found["bytes"] > SMALL_BYTES:
        return Preview(**found)

    def trial(db: Database) -> Cohort:
        return assemble(db, reader(db, path, given), given, source, path)

    return Preview(**found, tried="all", **_outcome(trial, path, allow_dropped))


def _of_table(path: Path, options: ReadOptions, allow_dropped: float) -> dict[str, Any]:
    """The columns of a table and what its first rows come to."""
    with Database(aloud=False) as db:
        if (cohort := read_export(db, path, options)) is not None:
            understood = "an export of this project, read back whole"
            return {"tried": "all", "understood": understood, **_counts(cohort)}
    try:
        whole = open_table(path, options.encoding, options.sheet)
    except AdapclaError as error:
        return {"header": False, "problem": str(error)}
    head = whole.head(FIRST_ROWS)
    began = time.monotonic()
    with Database(aloud=False) as db:
        try:
            rows = _rows_of(db, head)
            layout = any_table.guess_columns(db, head, options)
        except AdapclaError as error:
            return {"header": False, "problem": str(error)}
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(whole.columns)
    usual = any(any_table.is_known(name) and name not in set(c) for name, c in zip(whole.columns, columns, strict=True))
    known = is_header(whole.columns, columns, usual or not layout.unclear)
    parts = layout.parts()
    found: dict[str, Any] = {
        "columns": tuple(
            Column(name if known else "", _kind(cells), parts.get(name, ""))
            for name, cells in zip(whole.columns, columns, strict=True)
        ),
        "header": known,
        "rows": tuple(tuple(masked(cell) for cell in row) for row in rows[:SHOWN_ROWS]),
        "tried": "all" if len(rows) < FIRST_ROWS else FIRST_ROWS,
        "understood": layout.sentence() if known else "",
    }

    def trial(db: Database) -> Cohort:
        return assemble(db, any_table.read_opened(db, head, layout, options), options, "table", path)

    found |= _outcome(trial, path, allow_dropped)
    taken = time.monotonic() - began
    return found | {"seconds": round(taken * max(_share_of(whole, len(rows)), 1.0), 1)}


def _outcome(trial: Any, path: Path, allow_dropped: float) -> dict[str, Any]:
    """What a trial comes to: the size of the cohort and what was left out, or the problem."""
    with Database(aloud=False) as db:
        try:
            cohort: Cohort = trial(db)
        except AdapclaError as error:
            return {"problem": str(error), "taken_for": dict(db.notes), "dropped": dict(db.dropped)}
        found = {"taken_for": dict(db.notes), **_counts(cohort)}
    try:
        require_kept(cohort, allow_dropped, path)
    except AdapclaError as error:
        return {"problem": str(error), **found}
    return found


def _counts(cohort: Cohort) -> dict[str, Any]:
    """The size of a cohort, what was left out of it and the systems of its codes."""
    from adapcla.data.code_systems import identify_codes

    systems: dict[str, int] = {}
    for code, where in zip(cohort.vocabulary.codes, identify_codes(cohort.vocabulary), strict=True):
        name = code.system or (where.system if where else "local")
        systems[name] = systems.get(name, 0) + 1
    return {
        "patients": cohort.n_patients,
        "visits": cohort.n_visits,
        "codes": cohort.n_codes,
        "dropped": dict(cohort.card.get("dropped", {})),
        "systems": dict(sorted(systems.items())),
    }


def _rows_of(db: Database, head: Table) -> list[tuple[str, ...]]:
    """The cells of the first rows; they stay in this module."""
    names = {f"c{place}": name for place, name in enumerate(head.columns) if name}
    db.load("head", head, names)
    empty = [place for place, name in enumerate(head.columns) if not name]
    rows = db.query("SELECT * FROM head")
    for place in empty:
        rows = [(*row[:place], "", *row[place:]) for row in rows]
    return rows


def _share_of(table: Table, n_rows: int) -> float:
    """How many times as long as its first rows a table is, by its bytes."""
    if table.forms[0] is None or n_rows < FIRST_ROWS:
        return 1.0
    with open_bytes(table.files[0]) as stream:
        head = stream.read(1 << 20)
    rows = max(head.count(b"\n"), head.count(b"\r"), 1)
    with table.files[0].open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    # Text of records shrinks to about a sixth when packed.
    total = sum(file.stat().st_size for file in table.files) * (6 if packed else 1)
    return total * rows / max(len(head), 1) / n_rows


def masked(cell: str) -> str:
    """A cell of which only the form is left.

    >>> masked("Müller, 12.03.1950"), masked("E11.9")
    ('Aaaaaa, 99.99.9999', 'A99.9')
    """
    return "".join("9" if c.isdigit() else ("A" if c.isupper() else "a") if c.isalpha() else c for c in cell[:40])


def is_header(names: Sequence[str], columns: Sequence[Sequence[str]], confirmed: bool = False) -> bool:
    """Whether the first line names columns; a line of cells must not be shown.

    Columns that were found by their usual names confirm it. Elsewhere every name must be a word without a digit that is
    no cell of its column.

    >>> is_header(["id", "when", "what"], [["7", "8"], ["2011-01-01"] * 2, ["I10", "E84"]])
    True
    >>> is_header(["P7", "2011-01-01", "I10"], [["P7", "P8"], ["2011-01-02"] * 2, ["I10", "E84"]])
    False
    """
    if confirmed:
        return True
    return all(
        _WORD.fullmatch(name.strip()) is not None and name.strip() not in set(cells)
        for name, cells in zip(names, columns, strict=True)
    )


def _kind(cells: Sequence[str]) -> str:
    """What the cells of a column look like.

    >>> _kind(["1", "", "20"]), _kind(["2011-02-03"]), _kind(["I10"]), _kind(["1.5"]), _kind([""])
    ('whole numbers', 'dates', 'text', 'numbers', 'empty')
    """
    filled = [cell for cell in cells if cell]
    if not filled:
        return "empty"
    for kind, pattern in (("whole numbers", r"-?\d+"), ("numbers", r"-?\d*[.,]?\d+([eE]-?\d+)?")):
        if all(re.fullmatch(pattern, cell) for cell in filled):
            return kind
    return "dates" if all(_DATE.fullmatch(cell) for cell in filled) else "text"


def n_bytes(path: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def _tables_in(path: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the tables in a folder, the largest first."""
    endings = (*ENDINGS, ".ndjson", ".ndjson.gz", ".json")
    files = [file for file in path.rglob("*") if file.is_file() and file.name.lower().endswith(endings)]
    largest_first = sorted((-file.stat().st_size, file.relative_to(path).as_posix()) for file in files)
    return tuple((name, -size) for size, name in largest_first[:_MOST_TABLES])
