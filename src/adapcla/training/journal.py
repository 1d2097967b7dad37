"""The journal of a training run: one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adapcla.files import full_disk_explained, write_bytes


class Journal:
    """An append-only log of a run; without a file it is kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []

    def resume(self, step: int) -> None:
        """Take up the file of an earlier attempt, forgetting what came after `step` and any torn last line."""
        if self.path is None or not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("step", 0) <= step:
                self.lines.append(line)
        write_bytes(self.path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())

    def write(self, **line: Any) -> None:
        """Add a line."""
        self.lines.append(line)
        if self.path is not None:
            text = json.dumps(line) + "\n"
            with full_disk_explained(self.path, len(text)), self.path.open("a", encoding="utf-8") as stream:
                stream.write(text)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind, in order.

        >>> journal = Journal()
        >>> journal.write(kind="step", step=1)
        >>> len(journal.of_kind("step"))
        1
        """
        return [line for line in self.lines if line.get("kind") == kind]


def loss_curves(path: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(step, loss) of training and of validation in the journal of a run, even while it is written; empty without.

    >>> loss_curves(Path("nowhere"))
    ([], [])
    """
    journal = Journal()
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            journal.lines.append(dict(json.loads(text)))
        except (ValueError, TypeError):
            # The last line may be half written.
            continue
    found = (
        [(float(line["step"]), float(line["loss"])) for line in journal.of_kind(kind) if line.get("loss") is not None]
        for kind in ("step", "validation")
    )
    return next(found), next(found)
