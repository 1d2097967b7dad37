"""Validation loss over rates, passes and sizes of the network, on parts of the open cohorts and the planted world.

    python benchmarks/budgets.py --cells cells.jsonl 'chile:2900:adapcla:learning_rate=0.001|0.002,passes=4|8'
    python benchmarks/budgets.py --cells cells.jsonl chile:2900:adapcla:trials         # what `train` tries and keeps
    python benchmarks/budgets.py --cells cells.jsonl --table results/budgets.md        # the table of all cells so far

What `adapcla train` finds by trying (`adapcla.generation.trials`, from the sizes of `adapcla.generation.recommended`)
is held against it: the table says how far the loss that it keeps lies above that of the best cell of all, and how many
passes the trials took together. Every cell is one line of JSON, so that a stopped run goes on where it was. A cell is
trained to the end of its cosine and keeps its last weights; the loss is that of the validation patients without any
bias, in nats a visit. Test patients are not read. Ends with 1 where what is kept is more than .02 nats above the best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.data import Cohort
from adapcla.data.split import SPLIT_SEED
from adapcla.data.split_folder import split_cohort
from adapcla.generation.methods import generator_for
from adapcla.generation.recommended import recommended
from adapcla.generation.trials import Cell as Trial
from adapcla.generation.trials import climbed, rates_to_try
from adapcla.pipeline.spec import DataSpec
from adapcla.pipeline.stages import read_data
from adapcla.seeds import random_stream
from adapcla.tables import Table

_VISITS = {"patient": "patient_id", "visit": "visit_id", "codes": "dx"}
COHORTS: dict[str, DataSpec] = {
    "diabetes130": DataSpec(source="table", path="diabetes130/visits.csv.gz", options=_VISITS),
    "synpuf": DataSpec(source="table", path="synpuf_inpatient/visits.csv.gz", options={**_VISITS, "day": "day"}),
    "chile": DataSpec(source="table", path="chile_grd_inca2023/visits.csv.gz", options={**_VISITS, "day": "day"}),
    "synthea": DataSpec(source="table", path="synthea/visits.csv.gz", options=_VISITS),
    "planted": DataSpec(),
}
#: Cohort, patients (72 in 100 are trained on), row and settings; then loss, steps and seconds.
Cell = dict[str, Any]
_WHERE = ("cohort", "patients", "method")
WITHIN = 0.02


def part_of(whole: Cohort, patients: int) -> Cohort:
    """So many patients, drawn once; fewer are part of more."""
    order = random_stream(1, "budgets").permutation(whole.n_patients)
    return whole.subset(np.sort(order[:patients]))


def asked(cells: list[str]) -> Iterator[Cell]:
    """The cells that are asked for: `COHORT:PATIENTS:METHOD:name=value,…` with values apart by `|`.

    >>> list(asked(["chile:2000:adapcla:passes=4|8"]))[1]["settings"]
    {'passes': 8}
    """
    for text in cells:
        cohort, patients, method, assignments = text.split(":")
        grid: list[Cell] = [{}]
        for assignment in assignments.split(","):
            name, _, values = assignment.partition("=")
            grid = [{**one, name: json.loads(value)} for one in grid for value in values.split("|")]
        for settings in grid:
            yield {"cohort": cohort, "patients": int(patients), "method": method, "settings": settings}


def by_trials(cohort: str, patients: int, method: str, parts: dict[str, Cohort], kept: Kept) -> Cell:
    """What `train` keeps: the best of the cells that it tries, and what the trials took."""
    train = parts["train"]
    rule = recommended(train.n_patients, train.n_visits, train.n_codes)

    def cell_of(trial: Trial) -> Cell:
        settings = {**trial.changes, "width": trial.width or rule.width}
        settings |= {"layers": rule.layers, "batch_size": rule.batch_size}
        return {"cohort": cohort, "patients": patients, "method": method, "settings": settings}

    tried = climbed(
        lambda trial: float(kept.with_numbers(cell_of(trial), parts)["loss"]),
        rates_to_try(method, {}, train.n_patients),
        2 * rule.width,
    )
    best = min(tried, key=lambda trial: tried[trial])
    told = {"trials": len(tried), "passes in all": sum(trial.passes for trial in tried)}
    return {**kept.with_numbers(cell_of(best), parts), **told}


def measured(cell: Cell, parts: dict[str, Cohort]) -> Cell:
    """The cell with its validation loss and what it took."""
    # What is folded in after training changes no loss of a trial.
    generator = generator_for(cell["method"], last_weights=True, calibration_rounds=0, threads=1, **cell["settings"])
    generator.fit(parts["train"], parts["valid"])
    assert generator.outcome_ is not None
    outcome = generator.outcome_
    return {**cell, "loss": outcome.best_loss, "steps": outcome.steps, "seconds": round(outcome.seconds, 1)}


class Kept:
    """The cells so far, in a file of one line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: list[Cell] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, cell: Cell) -> Cell:
        """Keep a cell."""
        self.cells.append(cell)
        with self.path.open("a") as file:
            file.write(json.dumps(cell) + "\n")
        print(json.dumps(cell), flush=True)
        return cell

    def with_numbers(self, cell: Cell, parts: dict[str, Cohort]) -> Cell:
        """The cell with its loss, measured unless it was before."""
        same = [one for one in self.cells if "trials" not in one and all(one[name] == cell[name] for name in cell)]
        return same[0] if same else self.add(measured(cell, parts))


def table(cells: list[Cell]) -> tuple[str, float]:
    """The cells as a page, and the largest distance of what `train` keeps from the best."""
    heading = ["cohort", "patients", "row", "cells", "best cell", "its loss", "what train keeps", "its loss"]
    lines, worst = [], 0.0
    groups = dict.fromkeys(tuple(cell[name] for name in _WHERE) for cell in cells)
    for where in groups:
        own = [cell for cell in cells if tuple(cell[name] for name in _WHERE) == where]
        # Other seeds of a cell show the noise of one fit; the best cell is of the seed that all have.
        plain = [cell for cell in own if "seed" not in cell["settings"] and "trials" not in cell]
        best = min(plain, key=lambda cell: cell["loss"])
        ours = [cell for cell in own if "trials" in cell]
        last = ["–"] * 4
        if ours:
            above = ours[-1]["loss"] - best["loss"]
            worst = max(worst, above)
            took = f"{ours[-1]['trials']} fits, {ours[-1]['passes in all']:g} passes"
            last = [_told(ours[-1]["settings"]), f"{ours[-1]['loss']:.3f}", f"{above:.3f}", took]
        cohort, patients, method = where
        told = [str(len(plain)), _told(best["settings"]), f"{best['loss']:.3f}"]
        lines.append([cohort, f"{patients:,}", method, *told, *last])
    every = [
        [cell["cohort"], f"{cell['patients']:,}", cell["method"], _told(cell["settings"]), f"{cell['loss']:.3f}"]
        for cell in cells
        if "trials" not in cell
    ]
    found = Table([*heading, "above the best", "what the trials took"], lines).markdown()
    return found + "\nEvery cell:\n\n" + Table(
        ["cohort", "patients", "row", "settings", "loss"], every
    ).markdown(), worst


def _told(settings: Cell) -> str:
    """The settings in words, sizes of batches and layers left out: they follow from the number of patients.

    >>> _told({"learning_rate": 0.001, "passes": 8.0, "width": 128, "layers": 2, "batch_size": 64})
    '8 passes at 0.001, width 128'
    """
    seed = f", seed {settings['seed']}" if "seed" in settings else ""
    return f"{settings['passes']:g} passes at {settings['learning_rate']:g}, width {settings['width']}{seed}"


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cell", nargs="*", help="COHORT:PATIENTS:METHOD:name=value|value,…; `trials` for what train does."
    )
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    kept, wholes = Kept(arguments.cells), dict[str, Cohort]()
    for text in arguments.cell:
        cohort, patients, method, wanted = text.split(":")
        if cohort not in wholes:
            wholes[cohort] = read_data(COHORTS[cohort])
        parts = split_cohort(part_of(wholes[cohort], int(patients)), SPLIT_SEED)
        if wanted == "trials":
            kept.add(by_trials(cohort, int(patients), method, parts, kept))
        else:
            for cell in asked([text]):
                kept.with_numbers(cell, parts)
    if arguments.table:
        page, worst = table(kept.cells)
        head = __doc__.splitlines()[0] if __doc__ else ""
        how = "Made by `benchmarks/budgets.py`, which says how: one fit each, of seed 1 where no seed stands."
        arguments.table.write_text(f"# Rate, passes and size\n\n{head} {how}\n\n{page}")
        raise SystemExit(int(worst > WITHIN))


if __name__ == "__main__":
    main()
