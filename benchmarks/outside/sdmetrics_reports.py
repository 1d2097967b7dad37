"""sdmetrics: the scores of its quality report and of its diagnostic report."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, Any]:
    """Both scores, and the two parts of quality."""
    from given import content, tables
    from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

    subject, train, _ = tables(folder)
    kinds = {"number": "numerical", "category": "categorical"}
    columns = {name: {"sdtype": kinds[kind]} for name, kind in content(folder / "columns.json").items()}
    out = {}
    for name, report in (("quality", QualityReport()), ("diagnostic", DiagnosticReport())):
        report.generate(train, subject, {"columns": columns}, verbose=False)
        out[name] = report.get_score()
        if name == "quality":
            parts = report.get_properties()
            out |= {str(row["Property"]).lower(): row["Score"] for _, row in parts.iterrows()}
    return out
