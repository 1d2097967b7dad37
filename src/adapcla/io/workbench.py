"""An out-of-core database for joining and sorting text tables, bounded in memory.

Every text is stripped of surrounding blanks as it comes in. SQL may use five macros:
`days_of(text)` (a date as days since 1970, or NULL), `age_band(years)` (a ten-year band; ages over 89 are one),
`name_token(text)` (a name in the form of a code; a text that has the form already stays as it is), `path_token(text)`
(the same for names so long that they must be cut: they stay apart) and `number_of(text)` (a finite number, or NULL).
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from adapcla.errors import AdapclaError, ExistsError, InputError
from adapcla.io.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

#: What the database may hold in memory; the rest goes to a temporary folder.
MEMORY_LIMIT = "500MB"
_MACROS = (
    r"""CREATE MACRO days_of(t) AS epoch(CASE
        WHEN regexp_full_match(t, '\d{4}-\d{2}-\d{2}([T ].*)?') THEN try_cast(t AS TIMESTAMP)
        WHEN regexp_full_match(t, '\d{8}') THEN try_strptime(t, '%Y%m%d')
        WHEN regexp_full_match(t, '\d{4}/\d{2}/\d{2}') THEN try_strptime(t, '%Y/%m/%d')
        WHEN regexp_full_match(t, '\d{2}\.\d{2}\.\d{4}') THEN try_strptime(t, '%d.%m.%Y') END) / 86400.0""",
    """CREATE MACRO age_band(years) AS CASE WHEN years IS NULL OR years < 0 THEN '' WHEN years >= 90 THEN '90+'
        ELSE CAST(CAST(floor(years / 10) AS INTEGER) * 10 AS VARCHAR) || '-'
             || CAST(CAST(floor(years / 10) AS INTEGER) * 10 + 9 AS VARCHAR) END""",
    r"""CREATE MACRO name_token(t) AS CASE WHEN regexp_full_match(t, '[A-Za-z0-9][A-Za-z0-9._-]{0,47}') THEN t
        ELSE left(trim(regexp_replace(lower(t), '[^a-z0-9.-]+', '_', 'g'), '_.-'), 48) END""",
    """CREATE MACRO path_token(t) AS CASE WHEN length(t) <= 48 THEN name_token(t)
        ELSE left(name_token(t), 41) || '-' || left(md5(t), 6) END""",
    r"""CREATE MACRO number_of(t) AS CASE WHEN regexp_full_match(t, '[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?')
        AND isfinite(try_cast(t AS FLOAT)) THEN try_cast(t AS FLOAT) END""",
)


class Workbench:
    """A temporary database for joining and sorting text tables, bounded in memory; gone when the block ends.

    >>> import pyarrow as pa
    >>> with Workbench() as bench:
    ...     bench.add("rows", [pa.record_batch({"a": ["0389", "NA"]})])
    ...     bench.query("SELECT a FROM rows ORDER BY a")
    [('0389',), ('NA',)]
    """

    def __enter__(self) -> Workbench:
        import duckdb

        self._folder = Path(tempfile.mkdtemp(prefix="adapcla-"))
        self._database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY_LIMIT,
                "temp_directory": str(self._folder),
                "threads": 1,
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        for macro in _MACROS:
            self._database.execute(macro)
        #: Reason → number of rows, visits or patients left out, in the order in which they were found.
        self.dropped: dict[str, int] = {}
        #: How many rows of visits, patients and codes the source has, before anything is left out.
        self.in_source: dict[str, int] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, name: str, table: Table, columns: Mapping[str, str], where: str = "", select: str = "*") -> None:
        """Make table `name` of these columns (new name → column of the table).

        `where` filters rows while reading; `select` is SQL for what is kept of each, so that long tables stay narrow.
        """
        self.add(name, table.batches(columns), list(columns), where, select)

    def add(
        self,
        name: str,
        batches: Iterable[pa.RecordBatch],
        columns: Sequence[str] | None = None,
        where: str = "",
        select: str = "*",
    ) -> None:
        """Make table `name` of record batches of text columns; `columns` is needed where there may be no batch."""
        import duckdb
        import pyarrow as pa

        stream = iter(batches)
        if columns is None:
            first = next(stream)
            columns, stream = first.schema.names, itertools.chain([first], stream)
        failures: list[AdapclaError] = []
        schema = pa.schema([(column, pa.string()) for column in columns])
        reader = pa.RecordBatchReader.from_batches(schema, _noting(stream, failures))
        filtered = f"WHERE {where}" if where else ""
        self._database.register("incoming", reader)
        try:
            self._database.execute(f"CREATE TABLE {name} AS SELECT {select} FROM incoming {filtered}")
        except duckdb.Error as error:
            raise (failures[0] if failures else _database_error(error)) from (None if failures else error)
        finally:
            self._database.unregister("incoming")

    def add_typed(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Make table `name` of columns that keep their types; a reader is taken batch by batch.

        >>> import pyarrow as pa
        >>> with Workbench() as bench:
        ...     bench.add_typed("rows", pa.table({"a": [1, 2]}))
        ...     bench.number("SELECT sum(a) FROM rows")
        3
        """
        self._database.register("incoming", rows)
        try:
            self.run(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        finally:
            self._database.unregister("incoming")

    def copy(self, query: str, path: Path) -> None:
        """Write the rows of a query to a file: Parquet or CSV, by the ending of its name."""
        how = "FORMAT parquet, COMPRESSION zstd"
        if path.suffix == ".csv":
            # A semicolon in a name must not make the header look like one of semicolons.
            names = [name for name, *_ in self.query(f"DESCRIBE {query}") if not name.replace("_", "").isalnum()]
            listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
            how = "FORMAT csv, HEADER true" + (f", FORCE_QUOTE ({listed})" if names else "")
        self.run(f"COPY ({query}) TO '{_doubled(path)}' ({how})")

    def rows(self, query: str, at_once: int = 10_000) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, some at a time; for answers that do not fit into memory.

        >>> with Workbench() as bench:
        ...     list(bench.rows("SELECT range FROM range(3)", at_once=2))
        [(0,), (1,), (2,)]
        """
        self.run(query)
        while some := self._database.fetchmany(at_once):
            yield from some

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement of SQL."""
        import duckdb

        try:
            self._database.execute(statement, list(parameters))
        except duckdb.Error as error:
            raise _database_error(error) from error

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that a query gives; for small answers."""
        self.run(statement)
        rows: list[tuple[Any, ...]] = self._database.fetchall()
        return rows

    def number(self, statement: str) -> int:
        """The one number that a query gives.

        >>> with Workbench() as bench:
        ...     bench.number("SELECT 40 + 2")
        42
        """
        return int(self.query(statement)[0][0] or 0)

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """The columns that a query gives, as numpy arrays; for numbers."""
        self.run(statement)
        # Where pandas is installed, duckdb says that texts of few kinds may come as its categories; numbers never do.
        columns: dict[str, Any] = self._database.fetchnumpy()
        return columns

    def drop(self, reason: str, n: int) -> None:
        """Count `n` things left out for a reason."""
        if n:
            self.dropped[reason] = self.dropped.get(reason, 0) + n


def _doubled(path: Path) -> str:
    """A path as it stands in SQL, between quotation marks."""
    return str(path).replace("'", "''")


def _noting(batches: Iterable[pa.RecordBatch], failures: list[AdapclaError]) -> Iterator[pa.RecordBatch]:
    """The batches, their texts stripped; a failure is noted on its way, because the database wraps it."""
    import pyarrow as pa
    import pyarrow.compute as pcompute

    try:
        for batch in batches:
            columns = [pcompute.utf8_trim_whitespace(column) for column in batch.columns]
            yield pa.record_batch(columns, names=batch.schema.names)
    except AdapclaError as error:
        failures.append(error)
        raise


def _database_error(error: Exception) -> AdapclaError:
    """A failure of the workbench in words; its own text may hold cells."""
    kind = type(error).__name__
    if "OutOfMemory" in kind or "IO" in kind:
        return ExistsError(
            f"the temporary folder {tempfile.gettempdir()} cannot hold the rows ({kind})\n"
            "to do: free disk there, or name a larger folder in the environment variable TMPDIR"
        )
    return InputError(f"rows that cannot be joined ({kind})", remedy="run again with --debug and report it")
