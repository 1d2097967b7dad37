"""Mutated files for every source: whatever a file holds, reading ends in a cohort or in a named error, and soon.

python -m tests.io.fuzz --files 10000
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tests.io.fixtures import DATASETS, Dataset, TextTable

from adapcla.errors import AdapclaError
from adapcla.io import read

#: Reading one tiny file may not take longer than this.
SECONDS_A_FILE = 20
_NASTY = (
    b"\0", b'"', b'""', b"\n", b"\r", b"\r\n", b",", b";", b"\t", b"|", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1a",
    b"NA", b"None", b"nan", b"inf", b"1E10", b"1e400", b"-1", b"=1+1", b"@A1", b"0389", b"9" * 40, b"x" * 300,
    b"9999-99-99", b"0000-00-00", b"infinity", b"epoch", b"'", b"\\", b"%s", b"{}", b"\xe9",
    "é日本".encode(),
)  # fmt: skip


class _Hang(BaseException):
    """Reading took too long."""


def mutated(content: bytes, draws: random.Random) -> bytes:
    """The bytes after one to four random changes.

    >>> mutated(b"a,b\\n1,2\\n", random.Random(1)) == mutated(b"a,b\\n1,2\\n", random.Random(1))
    True
    """
    for _ in range(draws.randint(1, 4)):
        content = _changed(content, draws)
    return content


def _changed(content: bytes, draws: random.Random) -> bytes:
    """The bytes after one random change: of a piece, of a line, or of the whole."""
    at = draws.randrange(len(content) + 1)
    to = min(len(content), at + draws.choice((1, 2, 8, 40)))
    lines = content.split(b"\n")
    line = draws.randrange(len(lines))
    kind = draws.randrange(10)
    if kind == 0:
        return content[:at] + draws.choice(_NASTY) + content[at:]
    if kind == 1:
        return content[:at] + draws.choice(_NASTY) + content[to:]
    if kind == 2:
        return content[:at] + content[to:]
    if kind == 3:
        return content[:at] + draws.randbytes(to - at) + content[to:]
    if kind == 4:
        return content[:at]
    if kind == 5:
        cells = lines[line].split(b",")
        cells[draws.randrange(len(cells))] = draws.choice(_NASTY)
        lines[line] = b",".join(cells)
        return b"\n".join(lines)
    if kind == 6:
        return b"\n".join([*lines[:line], *[lines[line]] * draws.choice((2, 50)), *lines[line + 1 :]])
    if kind == 7:
        return b"\n".join(lines[:line] + lines[line + 1 :])
    if kind == 8:
        cells = lines[line].split(b",")
        draws.shuffle(cells)
        lines[line] = b",".join(cells)
        return b"\n".join(lines)
    encoding = draws.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "cp500"))
    return content.decode("latin-1").encode(encoding)


def _in_another_form(data: Dataset, table: TextTable, draws: random.Random) -> tuple[Dataset, Path]:
    """The data set with one table left as it is, packed, or written as Parquet; and where that table is now."""
    form = draws.choice(("csv", "csv", "gz", "parquet"))
    if form == "csv":
        return data, table.path
    content = table.path.read_bytes()
    table.path.unlink()
    if form == "gz":
        target = table.path.with_name(table.path.name + ".gz")
        target.write_bytes(gzip.compress(content, mtime=0))
    else:
        import polars as pl

        target = table.path.with_suffix(".parquet")
        pl.read_csv(io.BytesIO(content), infer_schema=False).write_parquet(target)
    return (replace(data, root=target) if data.root == table.path else data), target


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise `_Hang` when the block takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(seed: int, folder: Path) -> str:
    """What reading the mutated file of a seed ends in: `cohort`, `error`, or the name of what should not happen."""
    draws = random.Random(seed)
    names = sorted(name for name in DATASETS)
    name = draws.choice(names)
    data = DATASETS[name](folder)
    if data.files:
        path = draws.choice(data.files)
    else:
        data, path = _in_another_form(data, draws.choice(data.tables), draws)
    content = path.read_bytes()
    if path.suffix == ".gz" and draws.random() < 0.5:
        path.write_bytes(gzip.compress(mutated(gzip.decompress(content), draws), mtime=0))
    else:
        path.write_bytes(mutated(content, draws))
    try:
        with _time_limit(SECONDS_A_FILE):
            read(name, data.root, **vars(data.options))
    except AdapclaError:
        return "error"
    except _Hang:
        return "hang"
    except BaseException as error:
        return f"{type(error).__name__} ({name}, {path.suffix})"
    return "cohort"


def run(files: int, seconds: float, first_seed: int = 0) -> Counter[str]:
    """Outcomes of so many mutated files, or of as many as the time allows; bad ones carry their seed."""
    os.environ["ADAPCLA_QUIET"] = "1"
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for seed in range(first_seed, first_seed + files):
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory() as folder:
            result = outcome(seed, Path(folder))
        counts[result if result in ("cohort", "error") else f"{result}, seed {seed}"] += 1
    return counts


def main(files: int = 2_000) -> None:
    parser = argparse.ArgumentParser(description="Read mutated files of every source.")
    parser.add_argument("--files", type=int, default=files)
    parser.add_argument("--seconds", type=float, default=3_600)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = run(arguments.files, arguments.seconds, arguments.first_seed)
    print(json.dumps({"files": counts.total(), **dict(counts)}))
    if set(counts) - {"cohort", "error"}:
        sys.exit("a file led to a traceback or a hang")


if __name__ == "__main__":
    main()
