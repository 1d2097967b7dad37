"""The folder of an analysis: tables as CSV and JSON, figures as SVG and PNG, and a summary with the captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from adapcla import files
from adapcla.report.style import save_both

SUMMARY = "summary.json"


class ResultFolder:
    """A folder that results are added to one by one; a populated one is refused before anything is computed."""

    def __init__(self, out: str | Path, overwrite: bool = False) -> None:
        self.out = Path(out)
        files.refuse_populated(self.out, overwrite)
        self.out.mkdir(parents=True, exist_ok=True)
        self.captions: dict[str, str] = {}
        #: What is worth telling at the end, by name.
        self.facts: dict[str, Any] = {}

    def table(self, name: str, frame: pl.DataFrame, **notes: Any) -> None:
        """Write a tidy table as NAME.csv and, with notes on how to read it, as NAME.json."""
        stem = self.out / name
        stem.parent.mkdir(parents=True, exist_ok=True)
        plain = frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
        files.write_bytes(stem.with_name(stem.name + ".csv"), plain.write_csv().encode())
        content = {"notes": notes, "columns": plain.columns, "rows": plain.to_dicts()}
        files.write_json(stem.with_name(stem.name + ".json"), content)

    def figure(self, name: str, drawn: tuple[Figure, str]) -> None:
        """Write a figure as NAME.svg and NAME.png and keep its caption."""
        save_both(drawn[0], self.out / name)
        self.captions[name] = drawn[1]

    def text(self, name: str, content: str) -> None:
        """Write a page."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content.encode())

    def close(self) -> Path:
        """Write captions and facts as the summary."""
        path = self.out / SUMMARY
        files.write_json(path, {"captions": self.captions, **self.facts})
        return path
