"""Validation loss over rates, passes and sizes of the network, on parts of the open cohorts and the planted world.

    python benchmarks/budgets.py --cells cells.jsonl 'chile:2900:adapcla:learning_rate=0.001|0.002,passes=4|8'
    python benchmarks/budgets.py --cells cells.jsonl chile:2900:adapcla:rule           # the cell of the rule
    python benchmarks/budgets.py --cells cells.jsonl --table results/budgets.md        # the table of all cells so far

The rule of `adapcla.generators.recommended` is held against it: the table says how far the loss of the recommended
cell lies above that of the best one. Every cell is one line of JSON, so that a stopped run goes on where it was. A cell
is trained to the end of its cosine and keeps its last weights; the loss is that of the validation patients without any
bias, in nats a visit. Test patients are not read. Ends with 1 where a recommended cell is further than .02 nats above
the best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.experiment.spec import DataSpec
from adapcla.experiment.stages import read_data
from adapcla.generators.methods import generator_for
from adapcla.generators.recommended import recommended
from adapcla.records import Cohort
from adapcla.records.parts import divided
from adapcla.records.split import SPLIT_SEED
from adapcla.seeds import random_stream

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


def recommended_cell(cohort: str, patients: int, method: str, train: Cohort) -> Cell:
    """The cell of the rule."""
    rule = recommended(train.n_patients, train.n_visits, train.n_codes)
    settings = {**rule._asdict(), "recommended": True}
    return {"cohort": cohort, "patients": patients, "method": method, "settings": settings}


def measured(cell: Cell, parts: dict[str, Cohort]) -> Cell:
    """The cell with its validation loss and what it took."""
    settings = {name: value for name, value in cell["settings"].items() if name != "recommended"}
    generator = generator_for(cell["method"], last_weights=True, threads=1, **settings)
    generator.fit(parts["train"], parts["valid"])
    assert generator.outcome_ is not None
    outcome = generator.outcome_
    return {**cell, "loss": outcome.best_loss, "steps": outcome.steps, "seconds": round(outcome.seconds, 1)}


def _known(cell: Cell, done: list[Cell]) -> Cell | None:
    """The recommended cell with the numbers of the same cell of the grid, where that was measured."""
    settings = {name: value for name, value in cell["settings"].items() if name != "recommended"}
    same = [one for one in done if one["settings"] == settings and all(one[k] == cell[k] for k in _WHERE)]
    return {**same[0], **cell} if same else None


def table(cells: list[Cell]) -> tuple[str, float]:
    """The cells as a page, and the largest distance of a recommended cell from the best."""
    lines = [
        "| cohort | patients | row | best cell | its loss | recommended | its loss | above the best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    worst = 0.0
    groups = dict.fromkeys((cell["cohort"], cell["patients"], cell["method"]) for cell in cells)
    for cohort, patients, method in groups:
        own = [c for c in cells if (c["cohort"], c["patients"], c["method"]) == (cohort, patients, method)]
        # Other seeds of a cell show the noise of one fit; the best cell is of the seed that all have.
        best = min((cell for cell in own if "seed" not in cell["settings"]), key=lambda cell: cell["loss"])
        ours = [cell for cell in own if cell["settings"].get("recommended")]
        last = ["–", "–", "–"]
        if ours:
            above = ours[-1]["loss"] - best["loss"]
            worst = max(worst, above)
            last = [_told(ours[-1]["settings"]), f"{ours[-1]['loss']:.3f}", f"{above:.3f}"]
        cohort_cells = [cohort, f"{patients:,}", method, _told(best["settings"]), f"{best['loss']:.3f}", *last]
        lines.append("| " + " | ".join(cohort_cells) + " |")
    every = [
        "",
        "Every cell:",
        "",
        "| cohort | patients | row | settings | loss | steps |",
        "|---|---|---|---|---|---|",
    ]
    for cell in cells:
        if not cell["settings"].get("recommended"):
            told = [cell["cohort"], f"{cell['patients']:,}", cell["method"], _told(cell["settings"])]
            every.append("| " + " | ".join([*told, f"{cell['loss']:.3f}", str(cell["steps"])]) + " |")
    return "\n".join([*lines, *every]) + "\n", worst


def _told(settings: Cell) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items() if name != "recommended")


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", nargs="*", help="COHORT:PATIENTS:METHOD:name=value|value,…; `rule` for the rule's own.")
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    done = [json.loads(line) for line in arguments.cells.read_text().splitlines()] if arguments.cells.exists() else []
    wholes: dict[str, Cohort] = {}
    for text in arguments.cell:
        cohort, patients, method, wanted = text.split(":")
        if cohort not in wholes:
            wholes[cohort] = read_data(COHORTS[cohort])
        parts = divided(part_of(wholes[cohort], int(patients)), SPLIT_SEED)
        cells = (
            list(asked([text]))
            if wanted != "rule"
            else [recommended_cell(cohort, int(patients), method, parts["train"])]
        )
        for cell in cells:
            if any(all(one[name] == cell[name] for name in cell) for one in done):
                continue
            done.append(_known(cell, done) or measured(cell, parts))
            with arguments.cells.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            print(json.dumps(done[-1]), flush=True)
    if arguments.table:
        page, worst = table(done)
        head = __doc__.splitlines()[0] if __doc__ else ""
        how = "Made by `benchmarks/budgets.py`, which says how: one fit each, of seed 1 where no seed stands."
        arguments.table.write_text(f"# Rate, passes and size\n\n{head} {how}\n\n{page}")
        raise SystemExit(int(worst > WITHIN))


if __name__ == "__main__":
    main()
