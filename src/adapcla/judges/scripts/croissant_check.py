"""mlcroissant: is the description valid, and how many rows does it read by it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def verdicts(folder: Path) -> dict[str, Any]:
    """Errors and warnings, and the rows that were read."""
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    issues = dataset.metadata.ctx.issues
    rows = sum(1 for _ in dataset.records("patients"))
    return {"errors": len(issues.errors), "warnings": len(issues.warnings), "rows read": rows}
