"""What a part of `tailwise` costs: a training step and sampling with it over without it, in turn, processor time.

    python benchmarks/parts.py [--part recall] [--repeats 12] [--patients 6000] [--codes 2000] [--width 128]

Prints one JSON object: the median ratios, and the seconds behind them. One thread, so that both sides have the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from adapcla.generation import Generator, generator_for
from adapcla.io import simulator as planted
from adapcla.models.batch import Batch

#: The settings without each part. `pairs` is all that came with the prior over pairs: without it stands the row as it
#: was before, with a wider state within a visit in fewer blocks (`without-company` of experiments/company.toml).
PARTS: dict[str, dict[str, Any]] = {
    "recall": {"recall": False},
    "company": {"company": 0},
    "kinship": {"kinship": False},
    "counting": {"counting": False},
    "leads": {"leads": False},
    "pairs": {"company": 0, "counting": False, "hidden": 64, "blocks": 24, "dropout": 0.2},
}
#: Patients of a step, and of a sample: two whole blocks.
_BATCH, _DRAWN = 256, 2048


def seconds(work: Callable[[], object]) -> float:
    """Processor time of some work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def step(generator: Generator, batch: Batch) -> None:
    """One step forward and back."""
    modules: Any = generator.model.network
    modules.train()
    modules.zero_grad(set_to_none=True)
    modules.loss(batch, None, 1.0).backward()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("repeats", 12), ("patients", 6000), ("codes", 2000), ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--part", choices=PARTS, default="recall")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    train, valid, _ = planted.simulate(patients=asked.patients, codes=asked.codes, seed=1).split(seed=4)
    settings: dict[str, Any] = {"width": asked.width, "layers": 2, "passes": 1, "calibration_rounds": 0}
    settings["order"] = "frequent"
    without = {**settings, **PARTS[asked.part]}
    sides = {on: generator_for("tailwise", **chosen) for on, chosen in ((False, without), (True, settings))}
    for generator in sides.values():
        generator.fit(train, valid)
    batch = sides[True].model.records(train).batch(np.arange(_BATCH))
    took: dict[tuple[str, bool], list[float]] = {(what, side): [] for what in ("step", "sample") for side in sides}
    for number in range(asked.repeats):
        for side, generator in sides.items():
            took["step", side].append(seconds(partial(step, generator, batch)))
            took["sample", side].append(seconds(partial(generator.sample, _DRAWN, seed=number)))
    found: dict[str, Any] = {"part": asked.part}
    for what in ("step", "sample"):
        ratios = [on / off for on, off in zip(took[what, True], took[what, False], strict=True)]
        found[f"{what}_with_over_without"] = round(statistics.median(ratios), 3)
        found[f"{what}_seconds"] = [round(statistics.median(took[what, side]), 4) for side in (False, True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
