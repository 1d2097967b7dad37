"""Folders on disk that are whole or absent: flat arrays, a vocabulary, a card and a manifest of hashes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import tokenize
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import ExistsError, InputError
from adapcla.records.vocabulary import Code

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
CARD = "card.json"
VOCABULARY = "vocabulary.parquet"
_ARRAY_TYPES = {
    "codes": np.int32,
    "visit_starts": np.int64,
    "patient_starts": np.int64,
    "days": np.int32,
    "labels": np.uint8,
}
#: How often each crash point was passed by this process.
_PASSED: dict[str, int] = {}


class FolderContent(NamedTuple):
    """What a cohort folder holds."""

    arrays: dict[str, NDArray[Any]]
    codes: tuple[Code, ...]
    card: dict[str, Any]


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def json_bytes(content: Any) -> bytes:
    """Readable JSON with sorted keys: the same content always gives the same bytes.

    >>> json_bytes({"b": 1, "a": 2})
    b'{\\n  "a": 2,\\n  "b": 1\\n}\\n'
    """
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def sync(path: Path) -> None:
    """Force a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def crash_point(name: str) -> None:
    """Kill this process here if ADAPCLA_CRASH_AT is `name:n` and this is the n-th time; nothing otherwise.

    The fault tests set it, to die at every point of a save; nobody else does.
    """
    wanted, _, number = os.environ.get("ADAPCLA_CRASH_AT", "").partition(":")
    if wanted == name:
        _PASSED[name] = _PASSED.get(name, 0) + 1
        if str(_PASSED[name]) == number:
            os.kill(os.getpid(), signal.SIGKILL)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with no_space_named(path, len(content)):
            crash_point("write")
            temporary.write_bytes(content)
            crash_point("fsync")
            sync(temporary)
            crash_point("rename")
            temporary.replace(path)
            crash_point("folder")
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(target: Path) -> None:
    """Remove what writers of `target` that were killed left beside it; a folder moved aside comes back if need be.

    Only for one who knows that no other process is writing `target` now.
    """
    left = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{32}\.(tmp|old)")
    beside = sorted(target.parent.iterdir()) if target.parent.is_dir() else []
    for path in [path for path in beside if left.fullmatch(path.name)]:
        if path.suffix == ".old" and not target.exists():
            path.rename(target)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def no_space_named(path: Path, n_bytes: int) -> Iterator[None]:
    """Turn "disk full" into an error that says how many bytes are needed."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ExistsError(
            f"{path}: the disk is full; {n_bytes:,} bytes are needed there\n"
            "to do: free that much and run again; what was complete before is untouched"
        ) from error


@contextmanager
def fresh_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that takes the place of `folder` when the block ends well, and vanishes otherwise."""
    refuse_populated(folder, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        for path in sorted(temporary.rglob("*")):
            sync(path)
        sync(temporary)
        crash_point("place")
        _put_in_place(temporary, folder)
        crash_point("placed")
        sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, folder: Path) -> None:
    """Rename `temporary` to `folder`; what was there comes back if that fails."""
    if not folder.exists():
        temporary.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.old")
    folder.rename(old)
    try:
        temporary.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()


def refuse_populated(folder: Path, overwrite: bool) -> None:
    """Raise if something is in the way and the user did not ask to replace it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not overwrite:
        raise ExistsError(f"{folder} exists and is not empty\nto do: name another --out, or add --overwrite")


def write_manifest(folder: Path) -> None:
    """List every file of the folder with its SHA-256."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    listing = {str(p.relative_to(folder)): {"sha256": sha256_of(p), "bytes": p.stat().st_size} for p in files}
    (folder / MANIFEST).write_bytes(json_bytes({"format": FORMAT_VERSION, "files": listing}))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the folder; it is not complete") from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"not readable as JSON ({type(error).__name__})", path=path, remedy="make it again") from None
    if not isinstance(content, dict):
        raise InputError("not a JSON object", path=path, remedy="make it again")
    return content


def verify_manifest(folder: Path, *, hashes: bool = True) -> dict[str, Any]:
    """The manifest, after every listed file was found with its size (and, unless told not to, its hash)."""
    if not folder.is_dir():
        raise InputError("no such folder", path=folder, remedy="check the path")
    manifest = read_json(folder / MANIFEST)
    files = manifest.get("files")
    if manifest.get("format") != FORMAT_VERSION or not isinstance(files, dict):
        raise InputError(
            f"format {manifest.get('format')!r}",
            path=folder / MANIFEST,
            expected=f"format {FORMAT_VERSION}",
            remedy="import the data again with this version",
        )
    for name, entry in files.items():
        path = folder / name
        if not isinstance(entry, dict) or ".." in Path(name).parts or Path(name).is_absolute():
            raise InputError("an entry that is not allowed", path=folder / MANIFEST, remedy="make the folder again")
        if not path.is_file() or path.stat().st_size != entry.get("bytes"):
            raise InputError(
                "missing or of another size than the manifest says", path=path, remedy="copy or make it again"
            )
        if hashes and sha256_of(path) != entry.get("sha256"):
            raise InputError("content differs from the manifest's SHA-256", path=path, remedy="copy or make it again")
    return manifest


def save_folder(
    folder: Path,
    arrays: dict[str, NDArray[Any]],
    codes: Sequence[Code],
    card: dict[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write a cohort folder whole or not at all."""
    needed = sum(array.nbytes for array in arrays.values())
    with no_space_named(folder, needed), fresh_folder(folder, overwrite) as temporary:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
        finish_folder(temporary, codes, card)
    return folder


def finish_folder(folder: Path, codes: Sequence[Code], card: dict[str, Any]) -> None:
    """Add vocabulary, card and manifest to a folder that holds its arrays already."""
    write_vocabulary(folder / VOCABULARY, codes)
    (folder / CARD).write_bytes(json_bytes({**card, "format": FORMAT_VERSION}))
    write_manifest(folder)


def write_vocabulary(path: Path, codes: Sequence[Code]) -> None:
    """Codes as a Parquet table, one row a code, in order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array([code[i] for code in codes], pa.string()) for i, name in enumerate(Code._fields)}
    pq.write_table(pa.table(columns), path, compression="zstd")


def read_vocabulary(path: Path) -> tuple[Code, ...]:
    """The codes of a vocabulary file."""
    table = guarded_parquet(path)
    missing = [name for name in Code._fields if name not in table]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}", path=path, expected=", ".join(Code._fields), remedy="make it again"
        )
    return tuple(Code(*row) for row in zip(*(table[name] for name in Code._fields), strict=True))


def guarded_parquet(path: Path) -> dict[str, list[str]]:
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


def open_folder(folder: Path) -> FolderContent:
    """The content of a cohort folder, arrays memory-mapped."""
    manifest = verify_manifest(folder)
    for name in ("codes.npy", "visit_starts.npy", "patient_starts.npy", VOCABULARY, CARD):
        if name not in manifest["files"]:
            raise InputError(f"{name} is not listed", path=folder / MANIFEST, remedy="make the cohort again")
    names = [name for name in manifest["files"] if name.endswith(".npy")]
    arrays = {Path(name).stem: _mapped(folder / name) for name in names}
    card = read_json(folder / CARD)
    return FolderContent(arrays, read_vocabulary(folder / VOCABULARY), card)


def names_of(content: FolderContent, folder: Path) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The names of the labels, and the categories of each attribute, that the card gives to the arrays."""
    labels, attributes = content.card.get("labels", []), content.card.get("attributes", {})
    good = _is_texts(labels) and isinstance(attributes, dict) and all(_is_texts(a) for a in attributes.values())
    present = {name.removeprefix("attribute_") for name in content.arrays if name.startswith("attribute_")}
    if not good or set(attributes) != present:
        raise InputError(
            "labels or attributes that the arrays do not have",
            path=folder / CARD,
            expected="a name for each label, and for each attribute its categories",
            remedy="make the cohort again",
        )
    return tuple(labels), {name: tuple(categories) for name, categories in attributes.items()}


def _is_texts(value: Any) -> bool:
    """Whether this is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def read_array(path: Path, mapped: bool = False) -> NDArray[Any]:
    """An array from disk, whole or by memory map; whatever is wrong with the file is named."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a header in an old form is told by what comes of it
            array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, RecursionError, SyntaxError, tokenize.TokenError) as error:
        raise InputError(f"not a readable array ({type(error).__name__})", path=path, remedy="make it again") from None
    if not isinstance(array, np.ndarray):
        raise InputError("an archive, not an array", path=path, remedy="make it again")
    return array


def _mapped(path: Path) -> NDArray[Any]:
    """An array from disk by memory map, of the type its name promises."""
    array = read_array(path, mapped=path.is_file() and path.stat().st_size >= 4096)
    wanted = np.dtype(_ARRAY_TYPES.get(path.stem, np.int16))
    if array.dtype != wanted:
        raise InputError(f"numbers of type {array.dtype}", path=path, expected=str(wanted), remedy="make it again")
    return array
