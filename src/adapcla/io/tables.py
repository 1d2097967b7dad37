"""Tables as streams of text columns: nothing inferred, nothing changed, every defect named by file, row and column.

CSV and TSV (packed or not), Parquet, one file or a folder of shards. A cell is text: `0389`, `NA`, `None` and `1E10`
come out as they went in; a missing Parquet value comes out as the empty text. Errors never show a cell.
"""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla.errors import AdapclaError, InputError
from adapcla.io.streams import BLOCK, CheckedStream

if TYPE_CHECKING:
    import pyarrow as pa

#: File endings of a table, in the order in which they are looked for.
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet")
_DELIMITERS = (",", "\t", ";", "|")
#: A Parquet file that claims more rows for each of its bytes than this is lying.
_MAX_ROWS_PER_BYTE = 1_000
_MAX_ROW_GROUP_BYTES = 1 << 32
_ARROW_ODD_ROW = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")
_ARROW_ROW = re.compile(r"Row #(\d+)")
_ARROW_COLUMN = re.compile(r"column #(\d+)")


@dataclass(frozen=True)
class Table:
    """One table, in one or several files with the same columns.

    `columns` are the names as the file spells them; every look-up ignores case and surrounding blanks.
    """

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return self._spelling(name) is not None

    def column(self, *names: str) -> str:
        """The file's spelling of the first of these names that is a column; none is an `InputError`."""
        for name in names:
            spelling = self._spelling(name)
            if spelling is not None:
                return spelling
        # Of a file without a header the "columns" are a patient's cells, so only a near name is shown, never the list.
        near = difflib.get_close_matches(names[0].lower(), [c.lower() for c in self.columns], n=1, cutoff=0.7)
        raise InputError(
            f"no column {names[0]!r} among {len(self.columns)}",
            path=self.files[0],
            row=1,
            expected=f"a header with {' or '.join(repr(name) for name in names)}",
            remedy=f"rename the column, or name it ({near[0]!r} is near)" if near else "rename the column, or name it",
        )

    def first_of(self, *names: str) -> str | None:
        """The file's spelling of the first of these names that is a column, or None."""
        return next((spelling for name in names if (spelling := self._spelling(name)) is not None), None)

    def batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Record batches of text columns, named by the keys; the values are columns of the table (any case)."""
        asked = {new: self.column(old) for new, old in columns.items()}
        for file in self.files:
            yield from (_parquet_batches if _is_parquet(file) else _text_batches)(file, self.columns, asked)

    def _spelling(self, name: str) -> str | None:
        lower = name.strip().lower()
        exact = [column for column in self.columns if column == name.strip()]
        return next(iter(exact or [column for column in self.columns if column.lower() == lower]), None)


def find_table(root: Path, *names: str) -> Table | None:
    """The table of the first of these names that a folder holds, in any case, packing or format; None if there is none.

    A name may hold a subfolder (`hosp/admissions`). A folder of that name is read as shards.
    """
    if not root.is_dir():
        raise InputError("no such folder", path=root, expected=f"a folder with {names[0]}", remedy="check the path")
    for name in names:
        folder = root
        *parents, last = name.split("/")
        for part in parents:
            folder = _entry(folder, [part], want_folder=True) or folder / part
        entry = _entry(folder, [last + ending for ending in ENDINGS]) or _entry(folder, [last], want_folder=True)
        if entry is not None:
            return open_table(entry)
    return None


def need_table(root: Path, *names: str) -> Table:
    """Like `find_table`, but a missing table is an `InputError` that names it."""
    table = find_table(root, *names)
    if table is None:
        raise InputError(
            f"no table {names[0]!r} in the folder",
            path=root,
            expected=f"{names[0]}.csv, .csv.gz, .tsv, .parquet or a folder of shards (upper or lower case)",
            remedy="check that this is the folder of that source, and complete",
        )
    return table


def open_table(path: Path) -> Table:
    """The table in a file or in a folder of shards, its header checked."""
    if path.is_dir():
        files = tuple(sorted(f for f in path.rglob("*") if f.is_file() and f.name.lower().endswith(ENDINGS)))
        if not files:
            raise InputError(
                "a folder without any table", path=path, expected=", ".join(ENDINGS), remedy="check the path"
            )
    else:
        files = (path,)
    headers = [_columns_of(file) for file in files]
    for file, header in zip(files[1:], headers[1:], strict=True):
        if [c.lower() for c in header] != [c.lower() for c in headers[0]]:
            raise InputError(
                "columns differ from those of the first shard",
                path=file,
                row=1,
                expected=f"the columns of {files[0].name}",
                remedy="give all shards the same columns in the same order",
            )
    return Table(path, files, headers[0])


@contextmanager
def guarded(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a reader library throws at a bad file, panics included, into an `InputError`."""
    try:
        yield
    except (AdapclaError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        # A panic of a Rust reader derives from BaseException; its text may hold cells, so only its type is shown.
        raise InputError(
            f"not readable as {kind} ({type(error).__name__})",
            path=path,
            expected=f"a whole {kind} file",
            remedy="copy or export it again",
        ) from None


def _entry(folder: Path, names: Sequence[str], want_folder: bool = False) -> Path | None:
    """The folder's entry with one of these names, ignoring case; the earlier name wins, then the earlier spelling."""
    if not folder.is_dir():
        return None
    there = {(entry.name.lower(), entry.name): entry for entry in folder.iterdir() if entry.is_dir() == want_folder}
    for name in names:
        for lower, spelled in sorted(there):
            if lower == name.lower():
                return there[(lower, spelled)]
    return None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _columns_of(path: Path) -> tuple[str, ...]:
    """The column names of one file, checked."""
    if _is_parquet(path):
        columns = tuple(str(name) for name in _parquet(path).schema_arrow.names)
    else:
        stream = CheckedStream(path)
        columns = _header(stream)[0]
        stream.close()
    positions: dict[str, int] = {}
    for position, column in enumerate(columns, 1):
        if column and positions.setdefault(column, position) != position:
            raise InputError(
                f"the same column name twice, at {positions[column]} and {position}",
                path=path,
                row=1,
                expected="a header with each name once",
                remedy="rename or remove one of them",
            )
    return columns


def _header(stream: CheckedStream) -> tuple[tuple[str, ...], str]:
    """(column names, delimiter), read from the first row of a text file."""
    line = stream.header()
    while not line.strip() and stream._pending:
        line = stream.header()
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise _encoding_error(stream.path, 1, None) from None
    if not text.strip():
        raise InputError("an empty file", path=stream.path, expected="a header row", remedy="check the export")
    # A mark inside quotes is part of a name.
    bare = re.sub(r'"[^"]*"', "", text)
    delimiter = max(_DELIMITERS, key=lambda d: (bare.count(d), -_DELIMITERS.index(d)))
    try:
        cells = next(csv.reader([text], delimiter=delimiter, strict=False), [])
    except csv.Error:
        raise InputError("a header that cannot be read", path=stream.path, row=1, remedy="check its quotes") from None
    return tuple(cell.strip() for cell in cells), delimiter


def _text_batches(path: Path, columns: tuple[str, ...], asked: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Batches of a CSV or TSV file; its parser's complaints become errors with the row."""
    import pyarrow as pa
    import pyarrow.csv as pc

    stream = CheckedStream(path)
    _, delimiter = _header(stream)
    # Positions as names: the file's own may be empty, or differ in case between shards.
    names = [f"c{i}" for i in range(len(columns))]
    chosen = {new: names[columns.index(old)] for new, old in asked.items()}
    try:
        with pc.open_csv(
            stream,
            read_options=pc.ReadOptions(column_names=names, use_threads=False, block_size=BLOCK),
            parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(dict.fromkeys(chosen.values())),
                strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                yield pa.record_batch([batch.column(position) for position in chosen.values()], names=list(chosen))
    except pa.ArrowException as error:
        if "Empty CSV" in str(error):
            return
        raise _parse_error(path, str(error), columns) from None
    finally:
        quotes = stream.quotes
        stream.close()
    if quotes % 2:
        _refuse_unclosed_quote(path, delimiter)


def _parse_error(path: Path, text: str, columns: tuple[str, ...]) -> InputError:
    """The parser's complaint as an error of ours; its own text may hold cells and is not passed on."""
    odd = _ARROW_ODD_ROW.search(text)
    if odd:
        return InputError(
            f"{odd.group(2)} cells",
            path=path,
            row=int(odd.group(1)) + 1,
            expected=f"{len(columns)}, as in the header",
            remedy="repair or remove the row (an unquoted separator is usual)",
        )
    row, column = _ARROW_ROW.search(text), _ARROW_COLUMN.search(text)
    number = int(row.group(1)) + 1 if row else None
    if "UTF8" in text:
        return _encoding_error(path, number, columns[int(column.group(1))] if column else None)
    if "straddling" in text or "block" in text:
        return InputError(
            f"a row longer than {BLOCK:,} bytes",
            path=path,
            expected="shorter rows, their quotes closed",
            remedy="look for a quote that is never closed",
        )
    return InputError("rows that cannot be parsed", path=path, row=number, remedy="export the table again")


def _encoding_error(path: Path, row: int | None, column: str | None) -> InputError:
    return InputError(
        "text that is not UTF-8",
        path=path,
        row=row,
        column=column,
        expected="UTF-8",
        remedy=f"convert it, for example from Latin-1: iconv -f LATIN1 -t UTF-8 {path.name} > utf8.csv",
    )


def _refuse_unclosed_quote(path: Path, delimiter: str) -> None:
    """Raise if a quote is opened and never closed, which would swallow all rows after it.

    Only a file with an odd number of quote marks comes here, so reading it once more, slowly, is rare.
    """
    stream = CheckedStream(path)
    text = io.TextIOWrapper(io.BufferedReader(stream, BLOCK), encoding="utf-8", errors="replace", newline="")
    limit = csv.field_size_limit(1 << 40)
    row, after, cells = 0, 0, ["end"]
    try:
        reader = csv.reader(itertools.chain(text, ["\n", "end"]), delimiter=delimiter)
        for cells in reader:  # noqa: B007 - the last one is what is wanted
            row, after = reader.line_num, row
    except csv.Error:
        cells, after = [], row
    finally:
        csv.field_size_limit(limit)
        text.close()
    # The word after the last line is a row of its own, unless an open quote swallowed it.
    if cells != ["end"]:
        raise InputError(
            "a quote that is never closed",
            path=path,
            row=after + 1,
            expected="quotes in pairs",
            remedy="close or remove the quote; it swallows every row after it",
        )


def _parquet(path: Path) -> Any:
    """An open Parquet file whose claims about its size are believable."""
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError("no such file", path=path, remedy="check the path")
    with guarded(path, "Parquet"):
        file = pq.ParquetFile(path, memory_map=False, pre_buffer=False)
        meta = file.metadata
        groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
        honest = (
            0 <= meta.num_rows <= 1_000_000 + _MAX_ROWS_PER_BYTE * path.stat().st_size
            and sum(group.num_rows for group in groups) == meta.num_rows
            and all(0 <= group.total_byte_size <= _MAX_ROW_GROUP_BYTES for group in groups)
        )
    if not honest:
        raise InputError(
            "the Parquet file claims sizes that cannot be true",
            path=path,
            expected="row groups under 4 GB",
            remedy="write it again with smaller row groups",
        )
    return file


def _parquet_batches(path: Path, columns: tuple[str, ...], asked: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet file, every value as text, missing values as empty text."""
    import pyarrow as pa
    import pyarrow.compute as pcompute

    file = _parquet(path)
    own = {name.lower(): name for name in reversed(file.schema_arrow.names)}
    chosen = {new: old if old in file.schema_arrow.names else own[old.lower()] for new, old in asked.items()}
    with guarded(path, "Parquet"):
        for batch in file.iter_batches(
            batch_size=1 << 16, columns=list(dict.fromkeys(chosen.values())), use_threads=False
        ):
            arrays = []
            for name in chosen.values():
                arrays.append(pcompute.fill_null(_as_text(batch.column(name), path, name), ""))
            yield pa.record_batch(arrays, names=list(chosen))


def _as_text(values: pa.Array, path: Path, column: str) -> pa.Array:
    """A Parquet column as text; nested columns have no text form and are refused."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if pa.types.is_nested(kind):
        raise InputError(
            f"a column of type {kind}", path=path, column=column, expected="text", remedy="flatten it first"
        )
    return values.cast(pa.string())
