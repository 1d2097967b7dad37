"""Files and folders that are whole or absent: written under another name and renamed, hashed, locked."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adapcla.errors import ExistsError, InputError
from adapcla.machine import process_index

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
#: How often each crash point was passed by this process.
_PASSED: dict[str, int] = {}
#: Folders that this process has locked.
_LOCKED: set[Path] = set()


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
        with full_disk_explained(path, len(content)):
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


def write_json(path: Path, content: Any) -> None:
    """Write a small JSON file whole or not at all."""
    write_bytes(path, json_bytes(content))


def remove_leftovers(target: Path) -> None:
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
def full_disk_explained(path: Path, n_bytes: int) -> Iterator[None]:
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


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the run folder; a second process is refused, a dead one's hold is gone with it.

    A process that holds a folder may ask for it again; of several that work together only the first holds it.
    """
    if folder.resolve() in _LOCKED or process_index() > 0:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ExistsError(
                f"{folder} is in use by another process\nto do: wait for it, or name another --out"
            ) from None
        _LOCKED.add(folder.resolve())
        yield
    finally:
        _LOCKED.discard(folder.resolve())
        os.close(handle)
