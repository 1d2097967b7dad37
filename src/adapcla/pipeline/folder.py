"""The folder of an experiment: where each result lives, and a stamp that says from which settings it was made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapcla.errors import InputError
from adapcla.evaluation.references import Beside
from adapcla.files import read_json, write_json

STAMP = "stage.json"
STUDY = "study.json"
REPORT = "report.html"


@dataclass(frozen=True)
class RunFolder:
    """`OUT/EXPERIMENT`, and the places in it.

    >>> RunFolder(Path("out/demo")).fit("adapcla", 2).as_posix()
    'out/demo/adapcla/seed2'
    """

    root: Path

    @property
    def data(self) -> Path:
        """Train, validation, test and control patients."""
        return self.root / "data"

    def split(self, seed: int) -> Path:
        """The same parts by another split, where each fit seed has its own."""
        return self.root / "splits" / f"seed{seed}"

    def tuning(self, row: str, cell: str) -> Path:
        """A short fit of a row with one cell of the grid."""
        return self.root / "tuning" / row / cell

    def target(self, name: str) -> Path:
        """The patients of a population that rows are steered towards."""
        return self.root / "targets" / name

    def fit(self, row: str, seed: int) -> Path:
        """A training run."""
        return self.root / row / f"seed{seed}"

    def sample(self, row: str, seed: int, draw: int) -> Path:
        """Patients drawn from a fit."""
        return self.fit(row, seed) / "samples" / f"seed{draw}"

    def scores(self, row: str, seed: int, draw: int) -> Path:
        """Their scores."""
        return self.fit(row, seed) / "scores" / f"seed{draw}"

    def steered(self, row: str, seed: int, target: str, mode: str) -> Path:
        """Patients drawn towards a target, and beside them their scores."""
        return self.fit(row, seed) / "toward" / target / mode

    def reference(self, reference: Beside) -> Path:
        """Scores of a reference that is judged by itself."""
        return self.root / "references" / reference.value

    def external(self, name: str) -> Path:
        """Patients that were made elsewhere, and beside them their scores."""
        return self.root / "external" / name

    @property
    def analysis(self) -> Path:
        """Tables and figures of the analyses."""
        return self.root / "analysis"

    @property
    def cache(self) -> Path:
        """Scores of references, shared by all rows."""
        return self.root / "cache"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / REPORT


def stamp(folder: Path) -> dict[str, Any]:
    """What is known of a finished stage; empty where it is not finished."""
    try:
        return read_json(folder / STAMP) if (folder / STAMP).is_file() else {}
    except InputError:
        # A torn stamp is no stamp: the stage is done again.
        return {}


def is_done(folder: Path, key: str) -> bool:
    """Whether the stage at this place was finished with the settings of this key."""
    return stamp(folder).get("key") == key


@contextmanager
def making(folder: Path, key: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Stamp the stage as finished when the block ends well; the block may add facts to what it is given."""
    (folder / STAMP).unlink(missing_ok=True)
    begin, processor = time.monotonic(), time.process_time()
    gathered = dict(facts)
    yield gathered
    folder.mkdir(parents=True, exist_ok=True)
    took = {"seconds": time.monotonic() - begin, "processor seconds": time.process_time() - processor}
    content = {"key": key, **{name: round(value, 2) for name, value in took.items()}, **gathered}
    write_json(folder / STAMP, content)
