"""ACES: the share of positive labels of two tasks, both asked of the same MEDS folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Admission within 30 days of a discharge, and an outcome within a year of an index code. Where visits say their kind
#: and ending, these stand behind the event (`DISCHARGE//home`).
READMISSION = """
predicates:
  discharge: {code: {regex: "^DISCHARGE(//|$)"}}
  admission: {code: {regex: "^ADMISSION(//|$)"}}
trigger: discharge
windows:
  target:
    start: trigger
    end: start + 30d
    start_inclusive: False
    end_inclusive: True
    label: admission
"""
ONSET = """
predicates:
  index: {code: "%(index)s"}
  outcome: {code: "%(outcome)s"}
trigger: index
windows:
  target:
    start: trigger
    end: start + 365d
    start_inclusive: False
    end_inclusive: True
    label: outcome
"""


def results(folder: Path) -> dict[str, Any]:
    """Rows and positive share of each task."""
    from given import content

    task = content(folder / "task.json")
    out = shares(folder, "readmission within 30 days", READMISSION)
    if "outcome" in task:
        # Exports write the code of a system with two slashes or one; what the folder holds is asked for.
        named = {name: spelled(folder, task[name]) for name in ("index", "outcome")}
        out |= shares(folder, f"{task['outcome']} within a year of {task['index']}", ONSET % named)
    return out


def spelled(folder: Path, code: str) -> str:
    """The code as the folder spells it."""
    import polars

    known = polars.read_parquet(folder / "subject" / "metadata" / "codes.parquet")["code"].to_list()
    plain = code.replace("/", "")
    return next((one for one in known if one.replace("/", "") == plain), code)


def shares(folder: Path, name: str, task: str) -> dict[str, Any]:
    """The number of rows of a task over all shards, and the share of positive ones."""
    import polars
    from aces import config, predicates, query
    from omegaconf import DictConfig

    path = folder / "task.yaml"
    path.write_text(task, encoding="utf-8")
    asked = config.TaskExtractorConfig.load(path)
    found = []
    for shard in sorted((folder / "subject" / "data").rglob("*.parquet")):
        data = DictConfig({"path": str(shard), "standard": "meds", "ts_format": None})
        found.append(query.query(asked, predicates.get_predicates_df(asked, data)))
    rows = polars.concat([one for one in found if len(one)], how="vertical_relaxed") if any(map(len, found)) else None
    if rows is None:
        return {f"{name}: rows": 0}
    # Its label is how often the outcome occurs in the window.
    return {f"{name}: rows": len(rows), f"{name}: positive": (rows["label"] > 0).mean()}
