"""The database in which tables are joined and sorted: out of core, every column text, every defect named by its place.

Cells come in without surrounding blanks; what is missing is the empty text. SQL may use these macros:
`days_of(text)` (a date as days since 1970, or NULL), `number_of(text)` (a finite number, or NULL), `whole_id(text)` (an
identifier that some copies write as 12.0) and `age_band(years)` (a ten-year band; ages over 89 are one).
"""

from __future__ import annotations

import codecs
import gzip
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from adapcla.console import say
from adapcla.errors import AdapclaError, ExistsError, InputError
from adapcla.io.options import ReadOptions
from adapcla.io.tables import (
    LONGEST_ROW,
    PARQUET,
    Table,
    TextForm,
    guarded,
    is_kind,
    open_bytes,
    row_of,
    single_byte,
    workbook_rows,
)
from adapcla.machine import available_bytes, usable_cores

if TYPE_CHECKING:
    import pyarrow as pa


def quoted(text: str) -> str:
    """A text as SQL.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


#: Environment variables that limit the threads and the memory (such as 500MB) of the database.
THREADS, MEMORY = "ADAPCLA_THREADS", "ADAPCLA_MEMORY"
#: The share of the free memory that the database takes, and the least that it needs; the rest goes to a folder.
_SHARE, _LEAST = 0.5, 500_000_000
#: All blanks of Unicode, and the mark at the beginning of a file.
BLANKS = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200C)))
#: What may stand behind a date.
_REST = r"([T ,:].*)?"
#: Day and month as numbers, of which the order must be known.
SLASHED = r"\d{1,2}[/-]\d{1,2}[/-](\d{4}|\d{2})" + _REST
_MONTHS = ("jan", "feb", "mar|mär|mrz", "apr", "may|mai", "jun", "jul", "aug", "sep", "oct|okt", "nov", "dec|dez")
_MONTH = " ".join(f"WHEN regexp_matches(lower(m), '^({names})') THEN {n}" for n, names in enumerate(_MONTHS, 1))
_WORD = r"[A-Za-zä]{3,9}\.?"
#: Form of a date → SQL for its day, by `p`, its numbers in order.
_FORMS = {
    r"\d{4}-\d{2}-\d{2}" + _REST: "parts_day(p[1], p[2], p[3])",
    r"\d{8}": "parts_day(left(t, 4), t[5:6], t[7:8])",
    r"\d{4}[/.]\d{1,2}[/.]\d{1,2}" + _REST: "parts_day(p[1], p[2], p[3])",
    r"\d{1,2}\.\d{1,2}\.(\d{4}|\d{2})" + _REST: "parts_day(p[3], p[2], p[1])",
    SLASHED: """CASE getvariable('date_order') WHEN 'dmy' THEN parts_day(p[3], p[2], p[1])
        WHEN 'mdy' THEN parts_day(p[3], p[1], p[2]) END""",
    r"\d{1,2}[-. ]+" + _WORD + r"[-. ,]+(\d{4}|\d{2})" + _REST: "parts_day(p[2], month_of(t), p[1])",
    _WORD + r" \d{1,2},? \d{4}" + _REST: "parts_day(p[2], month_of(t), p[1])",
}
_WHENS = " ".join(f"WHEN regexp_full_match(t, '{form}') THEN {day}" for form, day in _FORMS.items())
#: What databases and spreadsheets write where there is nothing. NA may be a code.
NOTHING = ("NULL", "null", "(null)", "[NULL]", "<NULL>", "\\N", "NaN", "nan", "#N/A", "#NV")
_HOUR = r"try_cast(regexp_extract(t, '\D(\d{1,2}):\d{2}', 1) AS DOUBLE)"
_NUL = "a NUL byte"
_MACROS = (
    # A look at both ends spares most cells the long list of blanks.
    f"""CREATE MACRO stripped(t) AS CASE WHEN regexp_matches(t, '^[^!-~]|[^!-~]$') THEN trim(t, {quoted(BLANKS)})
        WHEN t IN ({", ".join(map(quoted, NOTHING))}) THEN '' ELSE t END""",
    f"CREATE MACRO without_nul(t) AS CASE WHEN contains(t, chr(0)) THEN error('{_NUL}') ELSE t END",
    """CREATE MACRO parts_day(y, m, d) AS epoch(try_cast(printf('%04d-%02d-%02d', CASE WHEN length(y) > 2 THEN y::INT
        WHEN y::INT < 50 THEN 2000 + y::INT ELSE 1900 + y::INT END, m::INT, d::INT) AS DATE)) / 86400.0""",
    f"""CREATE MACRO month_of(t) AS (SELECT CASE {_MONTH} END
        FROM (SELECT regexp_extract(t, '([A-Za-zä]{{3}})', 1) AS m))""",
    rf"""CREATE MACRO clock_of(t) AS coalesce({_HOUR} / 24 +
        try_cast(regexp_extract(t, '\D\d{{1,2}}:(\d{{2}})', 1) AS DOUBLE) / 1440 +
        coalesce(try_cast(regexp_extract(t, '\D\d{{1,2}}:\d{{2}}:(\d{{2}}(\.\d+)?)', 1) AS DOUBLE), 0) / 86400 +
        CASE WHEN regexp_matches(t, '\d ?[Pp]\.?[Mm]') AND {_HOUR} < 12 THEN 0.5
            WHEN regexp_matches(t, '\d ?[Aa]\.?[Mm]') AND {_HOUR} = 12 THEN -0.5 ELSE 0 END, 0)""",
    rf"""CREATE MACRO dated(t, p) AS CASE {_WHENS} END + clock_of(t)""",
    # The usual form first, because it is a hundred times as fast.
    r"""CREATE MACRO days_of(t) AS CASE WHEN t[5:5] = '-' AND try_cast(t AS TIMESTAMP) IS NOT NULL
        THEN epoch(try_cast(t AS TIMESTAMP)) / 86400.0 ELSE dated(t, regexp_extract_all(t, '\d+')) END""",
    """CREATE MACRO age_band(years) AS CASE WHEN years IS NULL OR years < 0 THEN '' WHEN years >= 90 THEN '90+'
        ELSE CAST(CAST(floor(years / 10) AS INTEGER) * 10 AS VARCHAR) || '-'
             || CAST(CAST(floor(years / 10) AS INTEGER) * 10 + 9 AS VARCHAR) END""",
    r"CREATE MACRO whole_id(t) AS regexp_replace(t, '^([0-9]+)\.0+$', '\1')",
    r"""CREATE MACRO plain_number(t) AS CASE
        WHEN regexp_full_match(t, '[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?')
        AND isfinite(try_cast(t AS FLOAT)) THEN try_cast(t AS FLOAT) END""",
    r"""CREATE MACRO number_of(t) AS CASE getvariable('decimal')
        WHEN 'comma' THEN plain_number(replace(CASE WHEN contains(t, ',')
            OR regexp_full_match(t, '[-+]?\d{1,3}(\.\d{3})+') THEN replace(t, '.', '') ELSE t END, ',', '.'))
        WHEN 'point' THEN plain_number(CASE WHEN regexp_full_match(t, '[-+]?\d{1,3}(,\d{3})+(\.\d*)?')
            THEN replace(t, ',', '') ELSE t END)
        ELSE plain_number(t) END""",
)


class Database:
    """A temporary database, bounded in memory; gone when the block ends.

    >>> import pyarrow as pa
    >>> with Database() as db:
    ...     db.add("rows", pa.table({"a": ["0389", "NA"]}))
    ...     db.query("SELECT a FROM rows ORDER BY a")
    [('0389',), ('NA',)]
    """

    def __init__(self, aloud: bool = True) -> None:
        #: Whether notes are said on the screen.
        self.aloud = aloud

    def __enter__(self) -> Database:
        import duckdb

        self._folder = Path(tempfile.mkdtemp(prefix="adapcla-"))
        self.threads, self.memory = _threads(), _memory()
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": self.memory,
                "temp_directory": str(self._folder),
                "threads": self.threads,
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        for macro in _MACROS:
            self._connection.execute(macro)
        #: Reason → number of rows, visits or patients left out, in the order in which they were found.
        self.dropped: dict[str, int] = {}
        #: How many rows of visits, patients and codes the source has, before anything is left out.
        self.in_source: dict[str, int] = {}
        self._settled = False
        #: What was taken for granted about text, dates and numbers, for the screen and the card.
        self.notes: dict[str, str] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- tables in ------------------------------------------------------------------------------------------
    def load(
        self,
        name: str,
        table: Table,
        columns: Mapping[str, str],
        *,
        optional: Mapping[str, Sequence[str]] | None = None,
        where: str = "",
        select: str = "*",
    ) -> None:
        """Make table `name` of these columns (new name → column of the table).

        An optional column is the first of its names that the table has, and empty text where it has none. `where`
        filters rows while reading; `select` is SQL for what is kept of each, so that long tables stay narrow.
        """
        found = {new: table.first_of(*names) for new, names in (optional or {}).items()}
        needed = {new: table.column(old) for new, old in columns.items()} | {n: c for n, c in found.items() if c}
        absent = "".join(f", '' AS {_quoted_name(new)}" for new, column in found.items() if column is None)
        filtered = f"WHERE {where}" if where else ""
        limit = "" if table.limit is None else f" LIMIT {table.limit}"
        for number, (file, form) in enumerate(zip(table.files, table.forms, strict=True)):
            part = name if number == 0 else f"{name}_part"

            def make(form: TextForm | None, file: Path = file, part: str = part) -> None:
                source = f"SELECT *{absent} FROM ({self._source(table, file, form, needed)})"
                query = f"CREATE TABLE {part} AS SELECT {select} FROM ({source}) {filtered}{limit}"
                self._read(query, part, table, file, form)

            try:
                make(form)
            except _OtherEncoding:
                form = replace(form, encoding="windows-1252") if form else None
                make(form)
            except _RaggedRows:
                form = replace(form, ragged=True) if form else None
                self.note(f"rows of {file.name} with fewer cells than the header", "the missing ones are empty")
                make(form)
            if table.above and table.above[number]:
                self.note(f"rows above the header of {file.name}", f"{table.above[number]} left out")
            if form is not None and form.encoding != "utf-8":
                self.note(f"encoding of {file.name}", form.encoding)
            if part != name:
                self.run(f"INSERT INTO {name} SELECT * FROM {part}")
                self.run(f"DROP TABLE {part}")
        self.run("DROP TABLE IF EXISTS workbook")

    def _source(self, table: Table, file: Path, form: TextForm | None, needed: Mapping[str, str]) -> str:
        """SQL for the needed columns of one file, as text without surrounding blanks."""
        place = {new: table.columns.index(old) for new, old in needed.items()}
        if form is not None:
            cells = {new: f"c{number}" for new, number in place.items()}
            relation = self._text(file, form, len(table.columns))
        elif is_kind(file, PARQUET):
            relation = f"read_parquet({quoted(str(file))})"
            with guarded(file, "Parquet"):
                described = self._connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
            cells = {
                new: _parquet_text(str(described[number][0]), str(described[number][1]), file)
                for new, number in place.items()
            }
        else:
            self._load_workbook(table, file)
            relation, cells = "workbook", {new: f"c{number}" for new, number in place.items()}
        listed = ", ".join(
            f"coalesce(stripped(without_nul({cell})), '') AS {_quoted_name(new)}" for new, cell in cells.items()
        )
        return f"SELECT {listed} FROM {relation}"

    def _text(self, file: Path, form: TextForm, n_columns: int) -> str:
        """SQL for a text file; an encoding that the database does not know is translated first."""
        path, packed = file, False
        with open_bytes(file) as stream:
            if form.encoding == "utf-8":
                packed = isinstance(stream, gzip.GzipFile)
            else:
                path = self._folder / "translated.csv"
                with guarded(file, form.encoding), path.open("w", encoding="utf-8", newline="") as out:
                    shutil.copyfileobj(codecs.getreader(form.encoding)(stream), out, LONGEST_ROW)
        columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(n_columns))
        return f"""read_csv({quoted(str(path))}, auto_detect=false, columns={{{columns}}}, header=false,
            skip={form.skip}, delim={quoted(form.delimiter)}, quote='"', escape='"',
            compression='{"gzip" if packed else "none"}', store_rejects=true, rejects_limit=200,
            null_padding={form.ragged}, parallel={not form.ragged},
            max_line_size={LONGEST_ROW}, buffer_size={LONGEST_ROW * 8})"""

    def _load_workbook(self, table: Table, file: Path) -> None:
        """Make table `workbook` of the cells of a sheet."""
        import pyarrow as pa

        rows = itertools.islice(workbook_rows(file, table.sheet), table.above[table.files.index(file)] + 1, None)
        width = len(table.columns)
        held: list[list[str]] = [[] for _ in range(width)]
        for row in rows:
            for column, cell in zip(held, (*row, *[""] * (width - len(row))), strict=False):
                column.append(cell)
        self._connection.execute("DROP TABLE IF EXISTS workbook")
        self.add("workbook", pa.table({f"c{n}": pa.array(cells, pa.string()) for n, cells in enumerate(held)}))

    def _read(self, statement: str, name: str, table: Table, file: Path, form: TextForm | None) -> None:
        """Execute a statement that reads a file; rows that are no rows of the table become errors with their place."""
        import duckdb

        for rejects in ("reject_errors", "reject_scans"):
            self._connection.execute(f"DROP TABLE IF EXISTS {rejects}")
        failed = False
        try:
            self._connection.execute(statement)
        except duckdb.Error as error:
            failed = True
            if form is None:
                kind = "Parquet" if is_kind(file, PARQUET) else "a workbook"
                raise InputError(
                    f"not readable as {kind} ({type(error).__name__})",
                    path=file,
                    expected=f"a whole file: {kind}",
                    remedy="copy or export it again",
                ) from None
            if _NUL in str(error):
                raise InputError(
                    "a NUL byte",
                    path=file,
                    row=row_of(file, b"\0"),
                    expected="text",
                    remedy="the file is damaged or not a text table; export it again",
                ) from None
            if "GZIP" in str(error).upper() or "compress" in str(error).lower():
                raise InputError(
                    "the gzip file is damaged or ends too early", path=file, remedy="copy or download it again"
                ) from None
            if "reject" not in str(error).lower() and not self._rejected():
                raise _database_error(error, file) from error
        if form is not None and (failed or self._rejected()):
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
            self._raise_rejected(table, file, form)

    def _rejected(self) -> bool:
        """Whether the last file that was read holds a row that is none."""
        there = self.number("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'reject_errors'")
        return bool(there and self.number("SELECT count(*) FROM reject_errors"))

    def _raise_rejected(self, table: Table, file: Path, form: TextForm) -> None:
        """Raise the error of the first row that was refused; the database's own text may hold cells."""
        rows = self.query("SELECT line, error_type, column_idx, error_message FROM reject_errors ORDER BY line, 3 DESC")
        if not rows:
            raise InputError("rows that cannot be parsed", path=file, remedy="export the table again")
        if table.may_be_ragged and not form.ragged:
            rows = [row for row in rows if row[1] != "MISSING COLUMNS"]
            if not rows:
                raise _RaggedRows
        line, kind = int(rows[0][0]), str(rows[0][1])
        same = [row for row in rows if row[0] == rows[0][0]]
        width = len(table.columns)
        if kind in ("MISSING COLUMNS", "TOO MANY COLUMNS"):
            counts = [int(found[1]) for row in same if (found := re.search(r"Found: (\d+)", row[3]))]
            n = min(counts) if kind == "MISSING COLUMNS" else max(counts)
            raise InputError(
                f"{n} cells",
                path=file,
                row=line,
                expected=f"{width}, as in the header",
                remedy="repair or remove the row: "
                + ("it is cut off" if kind == "MISSING COLUMNS" else "an unquoted separator is usual"),
            )
        if kind == "INVALID ENCODING":
            if form.encoding == "utf-8" and single_byte(file):
                raise _OtherEncoding
            place = int(rows[0][2]) - 1
            raise InputError(
                f"text that is not {form.encoding.upper()}",
                path=file,
                row=line,
                column=table.columns[place] if 0 <= place < width else None,
                expected="text of one encoding",
                remedy="export it again as UTF-8, or name the encoding: --read encoding=windows-1252",
            )
        if kind == "UNQUOTED VALUE":
            raise InputError(
                "a quote that is never closed",
                path=file,
                row=line,
                expected="quotes in pairs",
                remedy="close or remove the quote; it swallows every row after it",
            )
        if kind == "LINE SIZE OVER MAXIMUM":
            raise InputError(
                f"a row longer than {LONGEST_ROW:,} bytes",
                path=file,
                row=line,
                expected="shorter rows, their quotes closed",
                remedy="look for a quote that is never closed",
            )
        raise InputError("a row that cannot be parsed", path=file, row=line, remedy="export the table again")

    def add(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Make table `name` of columns that keep their types; a reader is taken batch by batch."""
        import duckdb

        failures: list[AdapclaError] = []
        self._connection.register("incoming", _noting(rows, failures))
        try:
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        except duckdb.Error as error:
            raise (failures[0] if failures else _database_error(error)) from (None if failures else error)
        finally:
            self._connection.unregister("incoming")

    # ---- questions and answers ------------------------------------------------------------------------------
    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement of SQL."""
        import duckdb

        try:
            self._connection.execute(statement, list(parameters))
        except duckdb.Error as error:
            raise _database_error(error) from error

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that a query gives; for small answers."""
        self.run(statement)
        rows: list[tuple[Any, ...]] = self._connection.fetchall()
        return rows

    def number(self, statement: str) -> int:
        """The one number that a query gives.

        >>> with Database() as db:
        ...     db.number("SELECT 40 + 2")
        42
        """
        return int(self.query(statement)[0][0] or 0)

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """The columns that a query gives, as numpy arrays; for numbers."""
        self.run(statement)
        # Where pandas is installed, duckdb says that texts of few kinds may come as its categories; numbers never do.
        columns: dict[str, Any] = self._connection.fetchnumpy()
        return columns

    def rows(self, query: str, at_once: int = 10_000) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, some at a time; for answers that do not fit into memory.

        >>> with Database() as db:
        ...     list(db.rows("SELECT range FROM range(3) ORDER BY 1", at_once=2))
        [(0,), (1,), (2,)]
        """
        self.run(query)
        while some := self._connection.fetchmany(at_once):
            yield from some

    def copy(self, query: str, path: Path) -> None:
        """Write the rows of a query to a file: Parquet or CSV, by the ending of its name."""
        how = "FORMAT parquet, COMPRESSION zstd"
        if path.suffix == ".csv":
            # A semicolon in a name must not make the header look like one of semicolons.
            names = [name for name, *_ in self.query(f"DESCRIBE {query}") if not name.replace("_", "").isalnum()]
            listed = ", ".join(_quoted_name(name) for name in names)
            how = "FORMAT csv, HEADER true" + (f", FORCE_QUOTE ({listed})" if names else "")
        self.run(f"COPY ({query}) TO {quoted(str(path))} ({how})")

    # ---- what is counted and noted --------------------------------------------------------------------------
    def drop(self, reason: str, n: int) -> None:
        """Count `n` things left out for a reason."""
        if n:
            self.dropped[reason] = self.dropped.get(reason, 0) + n

    def note(self, what: str, how: str) -> None:
        """Keep what was taken for granted, for the card, and say it once."""
        if self.notes.get(what) != how:
            self.notes[what] = how
            if self.aloud:
                say(f"{what}: {how}")

    def settle_dates(self, options: ReadOptions, queries: Sequence[str]) -> str:
        """Decide whether dates such as 03/04/2020 begin with the day, by all dates of some queries of one column.

        What comes back is what must be asked of the user, or nothing.
        """
        if options.date_order is not None:
            self.run(f"SET VARIABLE date_order = '{options.date_order}'")
            return ""
        parts = r"regexp_extract(t, '^(\d+)', 1)::INT AS a, regexp_extract(t, '^\d+[/-](\d+)', 1)::INT AS b"
        if self._settled:
            return ""
        # A look at two characters spares most dates the pattern.
        marked = "(t[2:2] IN ('/', '-') OR t[3:3] IN ('/', '-'))"
        union = " UNION ALL ".join(
            f"SELECT t FROM ({query}) q(t) WHERE {marked} AND regexp_full_match(t, '{SLASHED}')" for query in queries
        )
        n, late_first, late_second = self.query(
            f"""SELECT count(*), count(*) FILTER (a > 12 AND a <= 31), count(*) FILTER (b > 12 AND b <= 31)
                FROM (SELECT {parts} FROM ({union}))"""
        )[0]
        if not n:
            return ""
        if bool(late_first) == bool(late_second):
            found = "some with the day first, some with the month first" if late_first else "day and month look alike"
            return f"dates such as 03/04/2020 ({found}): --read date_order=dmy (3 April) or =mdy (4 March)"
        order = "dmy" if late_first else "mdy"
        self.run(f"SET VARIABLE date_order = '{order}'")
        self._settled = True
        self.note("dates such as 03/04/2020", "day first" if order == "dmy" else "month first")
        return ""

    def settle_decimals(self, options: ReadOptions, query: str) -> str:
        """Decide whether 1,234 is about one or over a thousand, by all numbers of a query of one column.

        What comes back is what must be asked of the user, or nothing.
        """
        if options.decimal is not None:
            self.run(f"SET VARIABLE decimal = '{options.decimal}'")
            return ""
        comma = r"[-+]?\d*,\d{1,2}|[-+]?\d*,\d{4,}|[-+]?0,\d+|[-+]?\d{1,3}(\.\d{3})+,\d*"
        point = r"[-+]?\d*\.\d{1,2}|[-+]?\d*\.\d{4,}|[-+]?0\.\d+|[-+]?\d{1,3}(,\d{3})+\.\d*|[-+]?\d{1,3}(,\d{3}){2,}"
        with_comma, as_comma, as_point = self.query(
            f"""SELECT count(*) FILTER (regexp_full_match(t, '[-+0-9.]*,[0-9.,]*')),
                count(*) FILTER (regexp_full_match(t, '{comma}')), count(*) FILTER (regexp_full_match(t, '{point}'))
                FROM (SELECT DISTINCT t FROM ({query}) q(t))"""
        )[0]
        if not with_comma:
            return ""
        if bool(as_comma) == bool(as_point):
            found = "some with a comma, some with a point" if as_comma else "1,234 may be about one or over a thousand"
            return f"the mark of decimals in numbers ({found}): --read decimal=comma or --read decimal=point"
        decimal = "comma" if as_comma else "point"
        self.run(f"SET VARIABLE decimal = '{decimal}'")
        self.note("decimals in numbers", decimal)
        return ""


class _OtherEncoding(Exception):
    """A file is not UTF-8 but text of one byte a character."""


class _RaggedRows(Exception):
    """Rows of a file end early, and its last columns are of a kind of which few are filled."""


def _quoted_name(name: str) -> str:
    """The name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _parquet_text(name: str, kind: str, file: Path) -> str:
    """SQL for a column of Parquet as text: numbers without an empty fraction, times without a zone."""
    column = _quoted_name(name)
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
        what = "list" if kind.endswith("]") else kind.split("(")[0].lower()
        raise InputError(f"a column of type {what}", path=file, column=name, expected="text", remedy="flatten it first")
    if kind in ("DOUBLE", "FLOAT"):
        whole = f"{column} = floor({column}) AND abs({column}) < 1e15"
        return f"CASE WHEN {whole} THEN CAST(CAST({column} AS BIGINT) AS VARCHAR) ELSE CAST({column} AS VARCHAR) END"
    if kind == "BLOB":
        return f"decode({column})"
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"CAST({column} AT TIME ZONE 'UTC' AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def _noting(rows: Any, failures: list[AdapclaError]) -> Any:
    """The rows; a failure of a reader is noted on its way, because the database wraps it."""
    import pyarrow as pa

    if not isinstance(rows, pa.RecordBatchReader):
        return rows

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except AdapclaError as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _threads() -> int:
    """As many threads as the limit says, else as many as this process may use."""
    for name in (THREADS, "OMP_NUM_THREADS"):
        if (text := os.environ.get(name, "").split(",")[0]).isdigit() and int(text) > 0:
            return min(int(text), usable_cores())
    return usable_cores()


def _memory() -> str:
    """As much memory as the limit says, else a share of what is free."""
    if limit := os.environ.get(MEMORY, ""):
        return limit
    free = available_bytes()
    return f"{max(_LEAST, int((free or 0) * _SHARE)) // 1_000_000}MB"


def _database_error(error: Exception, path: Path | None = None) -> AdapclaError:
    """A failure of the database in words; its own text may hold cells."""
    kind = type(error).__name__
    if "OutOfMemory" in kind or "IO" in kind:
        return ExistsError(
            f"the temporary folder {tempfile.gettempdir()} cannot hold the rows ({kind})\n"
            "to do: free disk there, or name a larger folder in the environment variable TMPDIR"
        )
    return InputError(f"rows that cannot be joined ({kind})", path=path, remedy="run again with --debug and report it")
