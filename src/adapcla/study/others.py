"""What others say: verdicts of outside judges, and what gave written patients away to a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adapcla.files import read_json
from adapcla.report.tables import Line, Table, shown
from adapcla.study.results import Study
from adapcla.tables import Cell

#: The file of a folder of verdicts, and the folder of verdicts beside an experiment.
VERDICTS, FOLDER = "verdicts.json", "verdicts"
#: Columns shown of each row of the table of giveaways.
_MOST = 8


def judge_tables(folder: Path) -> Iterator[Table]:
    """The verdicts of outside judges in the folder of an experiment or release; nothing where nobody was asked."""
    for path in sorted((folder / FOLDER).rglob(VERDICTS)):
        yield judge_table(read_json(path), "-".join(path.parent.relative_to(folder).parts))


def judge_table(content: dict[str, Any], key: str = FOLDER) -> Table:
    """One line for each number that a judge gave, or for the reason that it gave none.

    >>> said = {"judge": "j", "version": "1", "metric": "auc", "synthetic": 0.6, "real": 0.5, "reason": ""}
    >>> judge_table({"subject": "s", "verdicts": [said]}).lines[0].cells[3].text
    '0.600'
    """
    lines = [
        Line(
            (
                Cell(said["judge"]),
                Cell(said["version"]),
                Cell(said["metric"]),
                *(_said(said[side], said["reason"]) for side in ("synthetic", "real")),
            )
        )
        for said in content["verdicts"]
    ]
    return Table(
        key,
        f"Outside judges on {content['subject']}",
        "Programs that others wrote, each in an environment of its own, on the synthetic patients and, as the "
        "reference, on as many held-out real ones. A judge that could not be asked says why.",
        ("judge", "version", "verdict", "synthetic", "held-out real"),
        tuple(lines),
    )


def _said(value: Any, reason: str) -> Cell:
    """What a judge said: a number, words, or nothing and why."""
    if isinstance(value, bool | str):
        return Cell(str(value))
    return Cell("–", None, reason) if value is None else Cell(shown(float(value)), float(value))


def gave_away_table(study: Study) -> Table | None:
    """The columns by which the discriminator told patients of each row from real ones; None where none was asked."""
    lines = []
    for row in study.rows:
        for found in study.curves(row).get("gave_away", [])[:_MOST]:
            numbers = (found[name] for name in ("real", "synthetic", "alone", "lost"))
            cells = (Cell(shown(value), value) for value in numbers)
            lines.append(Line((Cell(row), Cell(found["feature"]), Cell(found["kind"]), *cells)))
    if not lines:
        return None
    return Table(
        "gave-away",
        "What gave them away",
        "Means over real test patients and written ones, the area under the curve of the column alone (above one half: "
        "larger in written patients), and what the classifier loses when the column is shuffled.",
        ("row", "column", "kind", "real", "written", "AUC alone", "lost without it"),
        tuple(lines),
    )
