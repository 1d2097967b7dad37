"""The folder of a cohort on disk: flat arrays, a vocabulary, a card and a manifest of hashes."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import tempfile
import tokenize
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data.attributes import Attribute
from adapcla.data.ragged import chunks
from adapcla.data.vocabulary import N_PLAIN, Code
from adapcla.errors import InputError
from adapcla.files import (
    FORMAT_VERSION,
    MANIFEST,
    fresh_folder,
    full_disk_explained,
    json_bytes,
    read_json,
    verify_manifest,
    write_manifest,
)

CARD = "card.json"
VOCABULARY = "vocabulary.parquet"
#: The files of attributes begin with this.
_PREFIX = "attribute_"
#: The arrays of every cohort and the types of their numbers; attributes are int16.
ARRAY_TYPES = {
    "codes": np.int32,
    "visit_starts": np.int64,
    "patient_starts": np.int64,
    "days": np.int32,
    "labels": np.uint8,
    "values": np.float32,
}


class FolderContent(NamedTuple):
    """What a cohort folder holds."""

    #: By the names of `ARRAY_TYPES`; days, labels and values may be absent.
    arrays: dict[str, NDArray[Any]]
    codes: tuple[Code, ...]
    label_names: tuple[str, ...]
    attributes: dict[str, Attribute]
    card: dict[str, Any]


def save_folder(folder: Path, content: FolderContent, overwrite: bool = False) -> Path:
    """Write a cohort folder whole or not at all."""
    arrays = {**content.arrays, **{_PREFIX + name: a.values for name, a in content.attributes.items()}}
    card = {
        **content.card,
        "patients": len(arrays["patient_starts"]) - 1,
        "visits": len(arrays["visit_starts"]) - 1,
        "codes": len(content.codes),
        "entries": len(arrays["codes"]),
        "labels": list(content.label_names),
        "attributes": {name: list(attribute.categories) for name, attribute in content.attributes.items()},
    }
    needed = sum(array.nbytes for array in arrays.values())
    with full_disk_explained(folder, needed), fresh_folder(folder, overwrite) as temporary:
        for name, array in arrays.items():
            write_array(temporary / f"{name}.npy", array)
        finish_folder(temporary, content.codes, card)
    return folder


def write_array(path: Path, array: NDArray[Any]) -> None:
    """What `np.save` writes, a piece at a time, so that an array that is memory-mapped takes no memory."""
    with path.open("wb") as file:
        form = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(file, form)
        for part in chunks(len(array), array):
            file.write(np.ascontiguousarray(array[part]).data)


class GrowingArray:
    """An array that is written to a temporary file part by part; once whole, it is memory-mapped.

    >>> growing = GrowingArray(np.int32)
    >>> growing.append(np.array([1, 2], dtype=np.int32))
    >>> growing.append(np.array([3], dtype=np.int32))
    >>> growing.whole().tolist()
    [1, 2, 3]
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._dtype = np.dtype(dtype)
        # Without a name, so that it is gone with the last map of it.
        self._file = tempfile.TemporaryFile(prefix="adapcla-")  # noqa: SIM115

    def append(self, part: NDArray[Any]) -> None:
        """Add the elements of an array."""
        with full_disk_explained(Path(tempfile.gettempdir()), part.nbytes):
            self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)

    def whole(self) -> NDArray[Any]:
        """All elements; nothing can be added after that."""
        with self._file as file, full_disk_explained(Path(tempfile.gettempdir()), file.tell()):
            file.flush()
            return np.memmap(file, self._dtype, mode="r") if file.tell() else np.zeros(0, self._dtype)


def finish_folder(folder: Path, codes: Sequence[Code], card: dict[str, Any]) -> None:
    """Add vocabulary, card and manifest to a folder that holds its arrays already."""
    write_vocabulary(folder / VOCABULARY, codes)
    (folder / CARD).write_bytes(json_bytes({**card, "format": FORMAT_VERSION}))
    write_manifest(folder)


def write_vocabulary(path: Path, codes: Sequence[Code]) -> None:
    """Codes as a Parquet table, one row per code, in order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_fields = max((len(code.in_use) for code in codes), default=N_PLAIN)
    names = Code._fields[:n_fields]
    columns = {name: pa.array([code[i] for code in codes], pa.string()) for i, name in enumerate(names)}
    pq.write_table(pa.table(columns), path, compression="zstd")


def read_vocabulary(path: Path) -> tuple[Code, ...]:
    """The codes of a vocabulary file."""
    table = read_parquet(path)
    plain = Code._fields[:N_PLAIN]
    missing = [name for name in plain if name not in table]
    if missing:
        raise InputError(f"no column {missing[0]!r}", path=path, expected=", ".join(plain), remedy="make it again")
    names = [name for name in Code._fields if name in table]
    columns = zip(*(table[name] for name in names), strict=True)
    return tuple(Code(**dict(zip(names, row, strict=True))) for row in columns)


def read_parquet(path: Path) -> dict[str, list[str]]:
    """Columns of a small Parquet file as lists of text; any failure of the reader is a named error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, memory_map=False)
        texts = {name: table[name].cast(pa.string()).to_pylist() for name in table.column_names}
        # A missing cell is an empty text: a code without a token is then refused by its form.
        return {name: [text or "" for text in column] for name, column in texts.items()}
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the folder; it is not complete") from None
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"not readable as Parquet ({type(error).__name__})", path=path, remedy="make it again"
        ) from None


def read_text_table(path: Path, *needed: str) -> dict[str, list[str]]:
    """Columns of a small CSV, TSV or Parquet table by name in lower case; cells are text without blanks around them.

    The row of a cell in the file is its place plus 2. `needed` are columns that must be there.
    """
    path = Path(path)
    if path.name.lower().endswith((".parquet", ".pq")):
        table = {name.strip().lower(): [cell.strip() for cell in cells] for name, cells in read_parquet(path).items()}
    else:
        header, rows = _read_delimited(path)
        table = {name: [row[column] for row in rows] for column, name in enumerate(header)}
    require_columns(table, path, *needed)
    return table


def require_columns(table: Mapping[str, Any], path: Path, *needed: str) -> None:
    """Raise unless the table of a file has these columns."""
    for name in needed:
        if name not in table:
            # Of a file without a header the "columns" are cells, so only a near name is shown, never the list.
            near = difflib.get_close_matches(name, table, n=1, cutoff=0.7)
            raise InputError(
                f"no column {name!r} among {len(table)}",
                path=path,
                row=1,
                expected=f"a header with {name!r}",
                remedy=f"rename the column ({near[0]!r} is near)" if near else "rename the column",
            )


def _read_delimited(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header in lower case and rows of a small text table, plain or gzip."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the path") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"not readable as text ({type(error).__name__})",
            path=path,
            expected="CSV or TSV in UTF-8, plain or gzip, or Parquet",
            remedy="export the table again",
        ) from None
    first = text.partition("\n")[0]
    try:
        # Strict: a quote that is never closed would otherwise swallow the rest of the file as one cell.
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",\t;|", key=first.count), strict=True)
        rows = [[cell.strip() for cell in row] for row in lines if row]
    except csv.Error:
        raise InputError("a quote that is not closed", path=path, remedy="export the table again") from None
    if not rows:
        raise InputError("an empty file", path=path, expected="a header and rows", remedy="export the table again")
    header = [name.lower() for name in rows[0]]
    if len(set(header)) != len(header):
        raise InputError("two columns of one name", path=path, row=1, remedy="rename one of them")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise InputError(
                f"{len(row)} cells", path=path, row=number, expected=f"{len(header)} cells", remedy="repair the row"
            )
    return header, rows[1:]


def open_folder(folder: Path) -> FolderContent:
    """The content of a cohort folder, arrays memory-mapped."""
    manifest = verify_manifest(folder)
    for name in ("codes.npy", "visit_starts.npy", "patient_starts.npy", VOCABULARY, CARD):
        if name not in manifest["files"]:
            raise InputError(f"{name} is not listed", path=folder / MANIFEST, remedy="make the cohort again")
    names = [name.removesuffix(".npy") for name in manifest["files"] if name.endswith(".npy")]
    arrays = {name: _mapped(folder / f"{name}.npy") for name in names}
    values = {name.removeprefix(_PREFIX): arrays.pop(name) for name in names if name.startswith(_PREFIX)}
    card = read_json(folder / CARD)
    labels, categories = card.get("labels", []), card.get("attributes", {})
    good = _is_texts(labels) and isinstance(categories, dict) and all(_is_texts(texts) for texts in categories.values())
    if not good or set(categories) != set(values) or not set(arrays) <= set(ARRAY_TYPES):
        raise InputError(
            "labels or attributes that the arrays do not have",
            path=folder / CARD,
            expected="a name for each label, and for each attribute its categories",
            remedy="make the cohort again",
        )
    attributes = {name: Attribute(values[name], tuple(texts)) for name, texts in categories.items()}
    return FolderContent(arrays, read_vocabulary(folder / VOCABULARY), tuple(labels), attributes, card)


def _is_texts(value: Any) -> bool:
    """Whether this is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def read_array(path: Path, mapped: bool = False) -> NDArray[Any]:
    """An array from disk, whole or by memory map; whatever is wrong with the file is named."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a header in an old form shows in what comes of it
            array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, RecursionError, SyntaxError, tokenize.TokenError) as error:
        raise InputError(f"not a readable array ({type(error).__name__})", path=path, remedy="make it again") from None
    if not isinstance(array, np.ndarray):
        raise InputError("an archive, not an array", path=path, remedy="make it again")
    return array


def _mapped(path: Path) -> NDArray[Any]:
    """An array from disk by memory map, of the type its name promises."""
    array = read_array(path, mapped=path.is_file() and path.stat().st_size >= 4096)
    promised = np.dtype(ARRAY_TYPES.get(path.stem, np.int16))
    if array.dtype != promised:
        raise InputError(f"numbers of type {array.dtype}", path=path, expected=str(promised), remedy="make it again")
    return array
