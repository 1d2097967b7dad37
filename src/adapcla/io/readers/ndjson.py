"""Newline-delimited JSON: resources line by line, and their fields whatever else they hold."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla.errors import InputError
from adapcla.io.streams import CheckedStream

if TYPE_CHECKING:
    import pyarrow as pa

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?")
_ENDINGS = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
_LONGEST_LINE = 1 << 26
_BATCH = 1 << 15


def files_of(root: Path, resource: str) -> list[Path]:
    """The files whose name holds the resource as a word of its own."""
    word = re.compile(rf"(?:^|[^A-Za-z]){resource}(?:[^A-Za-z]|$)", re.IGNORECASE)
    there = (path for path in root.rglob("*") if path.is_file() and path.name.lower().endswith(_ENDINGS))
    return sorted(path for path in there if word.search(str(path.relative_to(root))))


def resources(path: Path, resource: str) -> Iterator[dict[str, Any]]:
    """The resources of a file, line by line; a line that is none is an error with its row."""
    with io.BufferedReader(CheckedStream(path), 1 << 20) as stream:
        row = 0
        while line := stream.readline(_LONGEST_LINE):
            row += 1
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(
                    "a line that is not JSON",
                    path=path,
                    row=row,
                    expected=f"one {resource} resource per line, at most {_LONGEST_LINE:,} bytes",
                    remedy="repair or remove the line, or copy the file again",
                ) from None
            if not isinstance(content, dict) or content.get("resourceType") != resource:
                raise InputError(
                    "a line that is another resource",
                    path=path,
                    row=row,
                    column="resourceType",
                    expected=resource,
                    remedy="keep each kind of resource in files of its own",
                )
            yield content


def batches(rows: Iterator[tuple[str, ...]], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows of text as record batches."""
    import pyarrow as pa

    held: list[tuple[str, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == _BATCH:
            yield pa.record_batch(
                [pa.array(list(c), pa.string()) for c in zip(*held, strict=True)], names=list(columns)
            )
            held = []
    if held:
        yield pa.record_batch([pa.array(list(c), pa.string()) for c in zip(*held, strict=True)], names=list(columns))


def text(value: Any) -> str:
    """Text from a field; whatever could not be written as text becomes a mark that no code may hold."""
    if not isinstance(value, str):
        return ""
    return (
        value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd") if not value.isprintable() else value
    )


def inside(content: Any, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def codings(concept: Any) -> list[dict[str, Any]]:
    """The codings of a concept, whatever else it holds."""
    codings = inside(concept, "coding")
    return [coding for coding in codings if isinstance(coding, dict)] if isinstance(codings, list) else []


def identity(reference: Any) -> str:
    """The id that a reference ends with: `Patient/7` and `urn:uuid:7` both point to 7.

    >>> identity("Patient/7"), identity("urn:uuid:7"), identity(None)
    ('7', '7', '')
    """
    return text(reference).split("/_history/")[0].rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def time_of(value: Any) -> str:
    """A date or local time without its zone; what has another form stays, to be counted as unreadable.

    >>> time_of("2020-01-31T10:00:00.5-05:00"), time_of({"start": "2020-01-31"}), time_of("2020")
    ('2020-01-31T10:00:00', '2020-01-31', '2020')
    """
    given = text(value.get("start") if isinstance(value, dict) else value)
    time = _TIME.match(given)
    return time[0] if time else given
