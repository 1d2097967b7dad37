"""What looking several blocks ahead saves when visits are drawn, over one block after the other: the same patients.

    python benchmarks/draws.py [--repeats 5] [--patients 4000] [--codes 500] [--codes-per-visit 3]

A planted world whose visits are cut to a number of codes, or a saved model with `--model FOLDER`. Prints one JSON
object: the median ratio of processor times, taken in turn, and the seconds behind it. One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapcla.data import Cohort
from adapcla.data.ragged import starts_from_sizes
from adapcla.generation import Generator, generator_for
from adapcla.generation.generator import load
from adapcla.io import simulator as planted
from adapcla.models import block_draws

#: Patients of a sample: two whole blocks.
_DRAWN = 2048


def cut(cohort: Cohort, most: int) -> Cohort:
    """The first codes of each visit."""
    place = np.arange(cohort.n_entries) - np.repeat(cohort.visit_starts[:-1], cohort.codes_per_visit)
    sizes = np.minimum(cohort.codes_per_visit, most)
    return Cohort(
        cohort.vocabulary, np.asarray(cohort.codes)[place < most], starts_from_sizes(sizes), cohort.patient_starts
    )


def fitted(asked: argparse.Namespace) -> Generator:
    """The generator that draws."""
    if asked.model is not None:
        return load(asked.model)
    world = cut(planted.simulate(patients=asked.patients, codes=asked.codes, seed=1), asked.codes_per_visit)
    train, valid, _ = world.split(seed=4)
    settings: dict[str, Any] = {"width": 128, "layers": 2, "passes": 1, "calibration_rounds": 0}
    return generator_for("tailwise", **settings).fit(train, valid)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("repeats", 5), ("patients", 4000), ("codes", 500), ("codes-per-visit", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--model", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    generator, ahead = fitted(asked), block_draws._AHEAD
    took: dict[int, list[float]] = {1: [], ahead: []}
    for number in range(asked.repeats):
        drawn = {}
        for blocks, seconds in took.items():
            block_draws._AHEAD = blocks
            begin = time.process_time()
            drawn[blocks] = generator.sample(_DRAWN, seed=number).fingerprint
            seconds.append(time.process_time() - begin)
        if len(set(drawn.values())) > 1:
            raise SystemExit("other patients came out")
    ratios = [one / several for one, several in zip(took[1], took[ahead], strict=True)]
    found = {"one_by_one_over_ahead": round(statistics.median(ratios), 2)}
    print(json.dumps(found | {"seconds": [round(statistics.median(times), 3) for times in took.values()]}))


if __name__ == "__main__":
    main()
