"""The files that evaluators are given, read inside their environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def content(path: Path) -> dict[str, Any]:
    """A JSON object."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def tables(folder: Path) -> tuple[Any, Any, Any]:
    """The patients that the question is about, training patients and test patients, as data frames."""
    import pandas

    frames = [pandas.read_csv(folder / f"{name}.csv") for name in ("subject", "train", "test")]
    # Some evaluators know text as objects alone.
    words = [name for name, kind in content(folder / "columns.json").items() if kind == "category"]
    subject, train, test = (frame.astype(dict.fromkeys(words, "object")) for frame in frames)
    return subject, train, test
