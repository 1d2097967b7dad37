"""A first look at a source before it is read: its columns or tables, which part each plays, and what would be left out.

Names and kinds of columns are told, never a cell. The first line of a file without a header is a patient's, so that the
names of columns are kept back where it does not look like a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla.errors import AdapclaError, InputError
from adapcla.io.codebook import Codebook
from adapcla.io.contract import Options, options_from, source_of
from adapcla.io.readers import table as any_table
from adapcla.io.tables import ENDINGS, Table, open_table

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a table that are tried.
FIRST_ROWS = 20_000
#: A folder of less than this is tried as a whole, a larger one is only looked at.
SMALL_BYTES = 20_000_000
#: Tables of a folder that are listed.
_MOST_TABLES = 40
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{4}/\d\d/\d\d|\d\d\.\d\d\.\d{4}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_ ./-]*")


@dataclass(frozen=True)
class FirstRows(Table):
    """The first rows of a table, as a table."""

    most: int = FIRST_ROWS

    def batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Record batches as of the whole table, up to the last row of this one."""
        left = self.most
        for batch in super().batches(columns):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


def preview(source: str, path: str | Path, **options: Any) -> dict[str, Any]:
    """What a source holds and what reading it would leave out, as far as its beginning tells.

    `columns` (of a table) have a name, a kind and a part; `tables` (of a folder) a name and a size; `tried` says how
    much was tried: `all`, a number of rows, or nothing. `problem` is the message that reading would end with.
    """
    asked, root = options_from(options), Path(path)
    reader = source_of(source)
    if not root.exists():
        raise InputError("no such file", path=root, remedy="check the path")
    if source == "table":
        return {"source": source, "bytes": n_bytes(root), **_of_table(root, asked)}
    found: dict[str, Any] = {"source": source, "bytes": n_bytes(root), "tables": _tables_in(root)}
    if found["bytes"] > SMALL_BYTES:
        return {**found, "tried": None, "problem": None}
    return {**found, "tried": "all", **_outcome(lambda: reader.read(root, asked))}


def _of_table(root: Path, asked: Options) -> dict[str, Any]:
    """The columns of a table and what its first rows come to."""
    book, root, asked = Codebook.of_table(root, asked)
    whole = open_table(root)
    first = FirstRows(whole.path, whole.files, whole.columns)
    rows = _rows_of(first)
    try:
        layout = any_table.layout_of(first, asked)
    except AdapclaError as error:
        layout, problem = None, str(error)
    parts = {} if layout is None else _parts(layout)
    usual = any(
        name.strip().lower() in any_table.KNOWN_NAMES and name.strip() not in set(cells)
        for name, cells in zip(whole.columns, rows, strict=True)
    )
    known = is_header(whole.columns, rows, layout is not None or usual)
    columns = [
        {"name": name if known else "", "kind": _kind(values), "part": parts.get(name, "")}
        for name, values in zip(whole.columns, rows, strict=True)
    ]
    n = len(rows[0]) if rows else 0
    found: dict[str, Any] = {"columns": columns, "header": known, "tried": "all" if n < FIRST_ROWS else n}
    if layout is None:
        return {**found, "problem": problem}
    found |= {"separator": layout.separator, "understood": layout.sentence()}
    return {**found, **_outcome(lambda: any_table.read_rows(first, book, asked))}


def _outcome(read: Any) -> dict[str, Any]:
    """What a trial comes to: the size of the cohort and what was left out, or the problem."""
    try:
        cohort = read()
    except AdapclaError as error:
        return {"problem": str(error)}
    counts = {"patients": cohort.n_patients, "visits": cohort.n_visits, "codes": cohort.n_codes}
    return {"problem": None, **counts, "dropped": dict(cohort.card.get("dropped", {}))}


def _parts(layout: any_table.Layout) -> dict[str, str]:
    """Column → the part it plays."""
    single = {name: getattr(layout, name) for name in ("patient", "visit", "date", "day", "sequence", "system")}
    out = {column: {"sequence": "order"}.get(part, part) for part, column in single.items() if column}
    return out | {column: f"codes ({domain})" for domain, columns in layout.codes.items() for column in columns}


def _rows_of(first: FirstRows) -> list[list[str]]:
    """The cells of the first rows, by column; they stay in this module."""
    names = {f"c{i}": name for i, name in enumerate(first.columns) if name}
    cells: dict[str, list[str]] = {new: [] for new in names}
    for batch in islice(first.batches(names), 64):
        for new, values in batch.to_pydict().items():
            cells[new] += [value.strip() for value in values]
    return [cells.get(f"c{i}", []) for i in range(len(first.columns))]


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
    for kind, pattern in (("whole numbers", r"-?\d+"), ("numbers", r"-?\d*\.?\d+([eE]-?\d+)?")):
        if all(re.fullmatch(pattern, cell) for cell in filled):
            return kind
    return "dates" if all(_DATE.fullmatch(cell) for cell in filled) else "text"


def n_bytes(root: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    return sum(path.stat().st_size for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file())


def _tables_in(root: Path) -> list[dict[str, Any]]:
    """Names and sizes of the tables in a folder, the largest first."""
    endings = (*ENDINGS, ".ndjson", ".ndjson.gz", ".pkl", ".json")
    paths = [path for path in root.rglob("*") if path.is_file() and path.name.lower().endswith(endings)]
    largest_first = sorted((-path.stat().st_size, path.relative_to(root).as_posix()) for path in paths)
    return [{"name": name, "bytes": -size} for size, name in largest_first[:_MOST_TABLES]]
