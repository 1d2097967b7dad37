"""MEDS-tab: describes the codes of a MEDS folder and builds its features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, Any]:
    """The columns that it found and the feature files that it wrote."""
    import polars

    out = folder / "tabular"
    # A cohort has no values, so that of its aggregations those of values are left out.
    has_static = any((folder / "subject" / "data").rglob("*.parquet")) and _static(folder)
    names = ["code/count", *(["static/present"] if has_static else [])]
    asked = [f"input_dir={folder / 'subject' / 'data'}", f"output_dir={out}", "do_overwrite=False"]
    aggregations = f"tabularization.aggs=[{','.join(names)}]"
    windows = "tabularization.window_sizes=[365d,full]"
    _run("meds-tab-describe", asked, folder)
    for step in ("meds-tab-tabularize-static", "meds-tab-tabularize-time-series"):
        if has_static or step.endswith("series"):
            _run(step, [*asked, windows, "tabularization.min_code_inclusion_count=10", aggregations], folder)
    described = polars.read_parquet(next(out.rglob("codes.parquet")))
    return {"codes described": len(described), "feature files": len(list(out.rglob("*.npz")))}


def _static(folder: Path) -> bool:
    """Whether there are events without a time."""
    import polars

    return bool(
        polars.scan_parquet(folder / "subject" / "data" / "**" / "*.parquet")
        .select(polars.col("time").is_null().any())
        .collect()
        .item()
    )


def _run(step: str, words: list[str], folder: Path) -> None:
    """One of its programs."""
    subprocess.run([Path(sys.executable).with_name(step), *words], check=True, cwd=folder)
