"""In and out: readers of what hospitals and research hold, writers of the formats of others, and a simulator.

Lives here: one file per source in `readers`, each a function that says with three queries what it found; `assemble`,
which makes a cohort of them; `tables` and `database`, which read files; one file per format in `writers`; `simulator`.
May not: know a network, a metric or a figure.
May import: data and the ground floor; duckdb and pyarrow inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla.console import say
from adapcla.errors import UsageError, nearest
from adapcla.io.options import ReadOptions

if TYPE_CHECKING:
    from adapcla.data import Cohort
    from adapcla.io.assemble import SourceTables
    from adapcla.io.database import Database

    Reader = Callable[[Database, Path, ReadOptions], SourceTables]

#: Name of a source → the module of `readers` with its function `read_…`, and what people call it.
READERS: dict[str, tuple[str, str]] = {
    "table": ("table", "a table (CSV, Excel, Parquet)"),
    "mimic3": ("mimic", "MIMIC-III"),
    "mimic4": ("mimic", "MIMIC-IV"),
    "eicu": ("eicu", "eICU"),
    "omop": ("omop", "OMOP CDM"),
    "meds": ("meds", "MEDS"),
    "fhir": ("fhir", "FHIR (NDJSON)"),
    "synthea": ("synthea", "Synthea (CSV)"),
}


def reader_of(source: str) -> Reader:
    """The reader of a source, imported on demand.

    >>> reader_of("omop").__name__
    'read_omop'
    """
    if source not in READERS:
        raise UsageError(f"no source {source!r}\nexpected: {', '.join(READERS)}\nto do: {nearest(source, READERS)}")
    module = import_module(f"adapcla.io.readers.{READERS[source][0]}")
    reader: Reader = getattr(module, f"read_{source}")
    return reader


def read(source: str, path: str | Path, **options: Any) -> Cohort:
    """The cohort that a source finds in a folder or file; `options` are the fields of `ReadOptions`."""
    given = ReadOptions.of(options)
    reader, path = reader_of(source), Path(path)
    cohort = read_with(reader, path, given, source)
    if given.labels is None:
        return cohort
    from adapcla.data.labels import add_labels

    return add_labels(cohort, given.labels)


def read_with(reader: Reader, path: Path, options: ReadOptions, source: str) -> Cohort:
    """The cohort that a reader finds; an export of this project is read back whole."""
    from adapcla.io.assemble import assemble
    from adapcla.io.codebook import read_export
    from adapcla.io.database import Database

    with Database() as db:
        say(f"reading {path.name} with {db.threads} threads and up to {db.memory} of memory")
        if source == "table" and (whole := read_export(db, path, options)) is not None:
            return whole
        return assemble(db, reader(db, path, options), options, source, path)


__all__ = ["READERS", "ReadOptions", "read", "reader_of"]
