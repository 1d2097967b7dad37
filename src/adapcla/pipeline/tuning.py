"""The rate and passes of each row, chosen by validation loss from one small grid that is the same for every row.

A cell is a fit like any other: it learns from training patients, is judged on validation patients without any bias, and
never sees test or control patients.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import AdapclaError, InterruptedRun
from adapcla.generation.generator import generator_for
from adapcla.generation.trials import Cell
from adapcla.pipeline import stages
from adapcla.pipeline.estimate import Sizes, training_seconds
from adapcla.pipeline.folder import RunFolder, is_done, making, stamp
from adapcla.pipeline.rows import Row
from adapcla.pipeline.settings import GridSettings, key_of
from adapcla.pipeline.step import Step
from adapcla.seeds import random_stream

_LOSS = "validation loss per visit"


@dataclass(frozen=True, eq=False)
class Tuning:
    """The grid of an experiment, for all rows that are trained."""

    grid: GridSettings
    rows: dict[str, Row]
    folder: RunFolder
    data_key: str
    parts: Callable[[], dict[str, Cohort]]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, the shortest fits first."""
        return tuple(Cell(rate, passes) for passes in sorted(self.grid.passes) for rate in self.grid.learning_rates)

    @property
    def tuned(self) -> tuple[str, ...]:
        """The rows that are trained; the others only count."""
        return tuple(
            name
            for name, (method, settings) in self.rows.items()
            if generator_for(method, **settings).settings.family.objective is not None
        )

    def _key(self, row: str, cell: Cell) -> str:
        """What a cell depends on: for all patients that is what a fit of the row depends on."""
        of_data = key_of(self.data_key, self.grid.patients) if self.grid.patients else self.data_key
        return stages.fit_key(of_data, *self._cell_row(row, cell), self.grid.seed)

    def _cell_row(self, row: str, cell: Cell) -> Row:
        """The row with a cell, without the rounds that come after the loss is known."""
        method, settings = cell.of(self.rows[row])
        return method, {**settings, "calibration_rounds": 0}

    def steps(self, sizes: Sizes) -> Iterator[Step]:
        """One step for each cell of each row."""
        share = min(1.0, self.grid.patients / sizes.patients) if self.grid.patients else 1.0
        for row in self.tuned:
            for cell in self.cells:
                method, settings = self._cell_row(row, cell)
                cost = share * training_seconds(generator_for(method, **settings).settings, sizes)
                key, folder = self._key(row, cell), self.folder.tuning(row, cell.name)
                work = partial(self._fit, row, cell, folder, key)
                yield Step("tune", f"{row} {cell.name}", folder, key, cost, work, f"{row} {cell.passes:g}")

    def _fit(self, row: str, cell: Cell, folder: Path, key: str) -> None:
        """The fit of a cell; a rate at which training fails is a cell without a loss."""
        parts = self.parts()
        train = parts["train"]
        if self.grid.patients and self.grid.patients < train.n_patients:
            chosen = random_stream(1, "tuning/patients").choice(train.n_patients, self.grid.patients, replace=False)
            train = train.subset(np.sort(chosen))
        try:
            stages.trained(folder, key, *self._cell_row(row, cell), self.grid.seed, train, parts["valid"])
        except InterruptedRun:
            raise
        except AdapclaError as error:
            if error.exit_code != 1:
                raise
            with making(folder, key, why=str(error).partition("\n")[0]):
                say(f"{row} {cell.name} failed: {error}")

    def loss(self, row: str, cell: Cell) -> float | None:
        """The validation loss of a cell; None before it is known, infinite where training failed."""
        folder = self.folder.tuning(row, cell.name)
        if not is_done(folder, self._key(row, cell)):
            return None
        loss = stamp(folder).get("costs", {}).get(_LOSS)
        return math.inf if loss is None else float(loss)

    def best(self, row: str) -> Cell | None:
        """The cell of the least loss, of equal ones the shortest; None before all are known."""
        losses = [self.loss(row, cell) for cell in self.cells]
        if any(loss is None for loss in losses):
            return None
        return self.cells[int(np.argmin(np.array(losses, dtype=float)))]

    def chosen(self) -> dict[str, Row]:
        """The rows with the cells that were chosen; before that, with the longest of their cells."""
        return {
            name: (self.best(name) or self.cells[-1]).of(row) if name in self.tuned else row
            for name, row in self.rows.items()
        }

    def reuse(self, row: str, key: str, folder: Path) -> None:
        """Take the fit of a cell for the fit of this key where it is the same."""
        cell = self.best(row) if row in self.tuned else None
        if cell is not None and not folder.exists() and is_done(self.folder.tuning(row, cell.name), key):
            shutil.copytree(self.folder.tuning(row, cell.name), folder)

    def table(self) -> list[dict[str, Any]]:
        """Every cell of every row with its loss and what it took, for the page."""
        lines = []
        for row in self.tuned:
            best = self.best(row)
            for cell in self.cells:
                costs = stamp(self.folder.tuning(row, cell.name)).get("costs", {})
                lines.append(
                    {
                        "row": row,
                        **cell._asdict(),
                        "loss": costs.get(_LOSS),
                        "steps": costs.get("steps"),
                        "chosen": cell == best,
                    }
                )
        return lines
