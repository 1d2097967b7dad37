"""Tables as files: which there are, in which form, and what their columns are called.

Text (comma, semicolon, tab or bar between cells; packed or not), Parquet and workbooks; one file or a folder of shards.
What a file is, is seen from its first bytes; nothing is inferred about its cells. Errors never show a cell.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from adapcla.errors import AdapclaError, InputError

#: File endings of a table, in the order in which they are looked for.
TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET, WORKBOOK = (".parquet", ".pq"), (".xlsx", ".xlsm", ".xls")
ENDINGS = (*TEXT, *PARQUET, *WORKBOOK)
#: A row, a quoted cell or a header may not be longer than this many bytes.
LONGEST_ROW = 1 << 22
_DELIMITERS = (",", "\t", ";", "|")
#: Rows among which the header is looked for.
_FIRST_ROWS = 40
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
_GZIP_MARK, _UTF16_MARKS = b"\x1f\x8b", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What two bytes or more of UTF-8 look like; text in an encoding of one byte hardly ever holds it.
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True)
class TextForm:
    """How a text file is written."""

    encoding: str
    delimiter: str
    #: Rows before the first row of cells: the header, and what is above it.
    skip: int
    #: Whether rows end early, where the separators of empty cells at their end are left out.
    ragged: bool = False


@dataclass(frozen=True)
class Table:
    """One table, in one or several files with the same columns.

    `columns` are the names as the file spells them; every look-up ignores case and surrounding blanks.
    """

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    #: The form of each file; None for Parquet and workbooks.
    forms: tuple[TextForm | None, ...]
    sheet: str | None = None
    #: How many rows are read; None reads all.
    limit: int | None = None
    #: Rows above the header of each file, such as titles; empty ones are not counted.
    above: tuple[int, ...] = ()

    @property
    def header_row(self) -> int:
        """The row of the first file that names the columns."""
        return 1 if self.forms[0] is None else self.forms[0].skip

    @property
    def may_be_ragged(self) -> bool:
        """Whether a row may end early: the last columns are numbered alike (`dx1 … dx25`), of which few may be filled.

        >>> [Table(Path("t"), (), names, ()).may_be_ragged for names in (("id", "dx1", "dx2"), ("id", "day", "dx"))]
        [True, False]
        """
        stems = [re.fullmatch(r"(.*?)\d+(\D*)", name.lower()) for name in self.columns[-2:]]
        return len({stem.groups() if stem else None for stem in stems}) == 1 and stems[0] is not None

    def has(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return self.first_of(name) is not None

    def column(self, *names: str) -> str:
        """The file's spelling of the first of these names that is a column; none is an `InputError`."""
        if (spelling := self.first_of(*names)) is not None:
            return spelling
        # Of a file without a header the "columns" are a patient's cells, so only a near name is shown, never the list.
        near = difflib.get_close_matches(names[0].lower(), [c.lower() for c in self.columns], n=1, cutoff=0.7)
        raise InputError(
            f"no column {names[0]!r} among {len(self.columns)}",
            path=self.files[0],
            row=self.header_row,
            expected=f"a header with {' or '.join(repr(name) for name in names)}",
            remedy=f"rename the column, or name it ({near[0]!r} is near)" if near else "rename the column, or name it",
        )

    def first_of(self, *names: str) -> str | None:
        """The file's spelling of the first of these names that is a column, or None."""
        for name in names:
            wanted = name.strip()
            exact = [column for column in self.columns if column == wanted]
            found = exact or [column for column in self.columns if column.lower() == wanted.lower()]
            if found:
                return found[0]
        return None

    def head(self, n: int) -> Table:
        """The first rows of the table, as a table."""
        return replace(self, limit=n)


# ---- finding and opening ----------------------------------------------------------------------------------
def find_table(root: Path, *names: str, encoding: str | None = None) -> Table | None:
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
            return open_table(entry, encoding)
    return None


def need_table(root: Path, *names: str, encoding: str | None = None) -> Table:
    """Like `find_table`, but a missing table is an `InputError` that names it."""
    table = find_table(root, *names, encoding=encoding)
    if table is None:
        raise InputError(
            f"no table {names[0]!r} in the folder",
            path=root,
            expected=f"{names[0]}.csv, .csv.gz, .tsv, .parquet or a folder of shards (upper or lower case)",
            remedy="check that this is the folder of that source, and complete",
        )
    return table


def open_table(path: Path, encoding: str | None = None, sheet: str | None = None) -> Table:
    """The table in a file or in a folder of shards, its header checked."""
    files: tuple[Path, ...] = (path,)
    if path.is_dir():
        files = tuple(sorted(f for f in path.rglob("*") if f.is_file() and f.name.lower().endswith(ENDINGS)))
        if not files:
            raise InputError(
                "a folder without any table", path=path, expected=", ".join(ENDINGS), remedy="check the path"
            )
    opened = [_columns_of(file, encoding, sheet) for file in files]
    for file, (columns, *_) in zip(files[1:], opened[1:], strict=True):
        if [c.lower() for c in columns] != [c.lower() for c in opened[0][0]]:
            raise InputError(
                "columns differ from those of the first shard",
                path=file,
                row=1,
                expected=f"the columns of {files[0].name}",
                remedy="give all shards the same columns in the same order",
            )
    forms, above = tuple(form for _, form, _ in opened), tuple(n for *_, n in opened)
    return Table(path, files, opened[0][0], forms, sheet, above=above)


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


def is_kind(path: Path, endings: Sequence[str]) -> bool:
    """Whether a file's name has one of these endings.

    >>> is_kind(Path("a.PQ"), PARQUET)
    True
    """
    return path.name.lower().endswith(tuple(endings))


def _columns_of(path: Path, encoding: str | None, sheet: str | None) -> tuple[tuple[str, ...], TextForm | None, int]:
    """The column names of one file, checked, how its text is written, and the number of rows above the header."""
    form: TextForm | None = None
    above = 0
    if is_kind(path, PARQUET):
        columns = _parquet_columns(path)
    elif is_kind(path, WORKBOOK):
        rows = list(itertools.islice(workbook_rows(path, sheet), _FIRST_ROWS))
        above = next((place for place in range(len(rows)) if _is_header(rows, place)), 0)
        columns = tuple(cell.strip() for cell in rows[above]) if rows else ()
        while columns and not columns[-1]:
            columns = columns[:-1]
    else:
        columns, form, above = _text_header(path, encoding)
    if not any(columns):
        raise InputError("an empty file", path=path, expected="a header row", remedy="check the export")
    positions: dict[str, int] = {}
    for position, column in enumerate(columns, 1):
        if column and positions.setdefault(column, position) != position:
            raise InputError(
                f"the same column name twice, at {positions[column]} and {position}",
                path=path,
                row=form.skip if form else above + 1,
                expected="a header with each name once",
                remedy="rename or remove one of them",
            )
    return columns, form, above


def _is_header(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a row names the columns of the rows below it; titles and dates of an export stand above.

    >>> rows = [["List", "", ""], ["as of", "2024-01-31", ""], ["patient", "date", "code"], ["1", "2020-01-02", "I10"]]
    >>> [_is_header(rows, place) for place in range(4)]
    [False, False, True, False]
    """
    # Rows below may be empty, but where they are one cell each, the mark between cells is another.
    row, below = rows[place], [len(cells) > 1 for cells in rows[place + 1 :]]
    names = [cell for cell in row if cell.strip()]
    usual = Counter(len(cells) for cells in rows[place + 1 :]).most_common(1)
    return (
        len(names) > max(1, len(row) / 2)
        and sum(below) > len(below) / 2
        and len(row) >= usual[0][0]
        and not any(_DATE.match(name.strip()) for name in names)
    )


# ---- text -------------------------------------------------------------------------------------------------
@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file; gzip is known by its content, not its name, and damage is a named error."""
    try:
        with path.open("rb") as plain:
            packed = plain.peek(2)[:2] == _GZIP_MARK
            if not packed and path.suffix.lower() == ".gz":
                found = "an empty file" if not plain.peek(1) else "not gzip, though its name ends so"
                raise InputError(found, path=path, remedy="copy or download it again, or rename it")
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=plain, mode="rb")) if packed else plain
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the path") from None
    except EOFError:
        raise InputError("the gzip file ends too early", path=path, remedy="copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise InputError("the gzip file is damaged", path=path, remedy="copy or download it again") from None
    except OSError as error:
        raise InputError(f"not readable ({error.strerror or 'damaged'})", path=path, remedy="check it") from None


def _text_header(path: Path, encoding: str | None) -> tuple[tuple[str, ...], TextForm, int]:
    """(column names, form, number of rows above the header), read from the first rows of a text file."""
    with open_bytes(path) as stream:
        head = stream.read(LONGEST_ROW)
    encoding = encoding or encoding_of(head)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head).removeprefix("\ufeff")
    lines = re.split("\r\n|\r|\n", text)
    filled = list(itertools.islice((place for place, line in enumerate(lines) if line.strip()), _FIRST_ROWS))
    if not filled:
        raise InputError("an empty file", path=path, expected="a header row", remedy="check the export")
    above = 0
    for number, place in enumerate(filled[:-1]):
        mark = _delimiter_of(lines[place])
        if _is_header([next(csv.reader([lines[each]], delimiter=mark), []) for each in filled[number:]], 0):
            above = number
            break
    start = filled[above]
    above = sum(bool(lines[place].strip(' "' + "".join(_DELIMITERS))) for place in filled[:above])
    header = lines[start]
    for line in lines[start + 1 :]:
        if header.count('"') % 2 == 0:
            break
        header += "\n" + line
    if header.count('"') % 2:
        raise InputError(
            "a quote that is never closed",
            path=path,
            row=start + 1,
            expected="a header row, its quotes closed",
            remedy="check that this is a text table",
        )
    delimiter = _delimiter_of(header)
    cells = next(csv.reader([header], delimiter=delimiter, skipinitialspace=True), [])
    return tuple(cell.strip() for cell in cells), TextForm(encoding, delimiter, start + 1), above


def _delimiter_of(line: str) -> str:
    """What stands between the cells of a line; a mark inside quotes is part of a cell."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_DELIMITERS, key=lambda mark: (bare.count(mark), -_DELIMITERS.index(mark)))


def encoding_of(content: bytes) -> str:
    """The encoding of text by its first bytes: UTF-8 unless there is evidence against it.

    >>> encoding_of("ä".encode()), encoding_of("Fälle".encode("latin-1")), encoding_of("ab".encode("utf-16-le"))
    ('utf-8', 'windows-1252', 'utf-16-le')
    """
    if content[:2] in _UTF16_MARKS:
        return "utf-16"
    some = content[:400]
    if some.count(b"\0") * 3 > len(some):
        return "utf-16-le" if some[1::2].count(b"\0") >= some[::2].count(b"\0") else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        # UTF-8 with damage in it is no text of another encoding.
        return "utf-8" if _MULTIBYTE.search(content) else "windows-1252"
    return "utf-8"


def single_byte(path: Path) -> bool:
    """Whether a file that is not UTF-8 holds nothing that looks like UTF-8, so that each byte is a character."""
    with open_bytes(path) as stream:
        return not any(_MULTIBYTE.search(block) for block in iter(lambda: stream.read(LONGEST_ROW), b""))


def row_of(path: Path, wanted: bytes) -> int | None:
    """The row of a file in which some bytes stand first, by its line ends."""
    row = 1
    with open_bytes(path) as stream:
        for block in iter(lambda: stream.read(LONGEST_ROW), b""):
            before, found, _ = block.partition(wanted)
            row += before.count(b"\n")
            if found:
                return row
    return None


# ---- Parquet and workbooks --------------------------------------------------------------------------------
def _parquet_columns(path: Path) -> tuple[str, ...]:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError("no such file", path=path, remedy="check the path")
    with guarded(path, "Parquet"):
        return tuple(str(name) for name in pq.read_schema(path).names)


def workbook_rows(path: Path, sheet: str | None = None) -> Iterator[tuple[str, ...]]:
    """The rows of a sheet as text; a workbook of several sheets needs the name of one."""
    from python_calamine import CalamineWorkbook

    if not path.is_file():
        raise InputError("no such file", path=path, remedy="check the path")
    with guarded(path, "a workbook"):
        book = CalamineWorkbook.from_path(str(path))
        filled = [name for name in book.sheet_names if book.get_sheet_by_name(name).total_height]
    chosen = sheet or (filled[0] if len(filled) == 1 else "")
    if chosen not in book.sheet_names:
        raise InputError(
            f"no sheet {sheet!r}" if sheet else f"{len(filled)} sheets" if filled else "an empty workbook",
            path=path,
            expected=f"one of {', '.join(book.sheet_names)}",
            remedy="name it: --read sheet=NAME",
        )
    with guarded(path, "a workbook"):
        for row in book.get_sheet_by_name(chosen).to_python(skip_empty_area=False):
            cells = tuple(_cell_text(cell) for cell in row)
            if any(cells):
                yield cells


def _cell_text(cell: Any) -> str:
    """A cell of a workbook as text; whole numbers and dates as they are shown.

    >>> from datetime import datetime
    >>> _cell_text(250.0), _cell_text(5.5), _cell_text(datetime(2020, 1, 31)), _cell_text(True)
    ('250', '5.5', '2020-01-31 00:00:00', 'true')
    """
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    return "" if cell is None else str(cell)


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
            expected=f"a whole file: {kind}",
            remedy="copy or export it again",
        ) from None
