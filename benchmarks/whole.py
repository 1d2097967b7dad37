"""What whole visits cost: a training step with kinds, stays, values and endings over one of codes alone, per entry.

    python benchmarks/whole.py [--method tailwise] [--repeats 12] [--patients 3000] [--codes 2000] [--width 128]

Both sides learn the same planted patients, in turn, by processor time of one thread. Prints one JSON object: the median
ratio of seconds per entry (a code of a visit; with whole visits also its kind, length, values and ending), the same per
visit, the seconds of a step, and the entries of a batch on both sides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np
import torch

from adapcla.data.quantization import Quantizer
from adapcla.generation.fitting import untrained
from adapcla.generation.methods import METHODS
from adapcla.generation.model import Model
from adapcla.generation.settings import settings_from
from adapcla.io import simulator as planted
from adapcla.models.batch import Batch

#: Patients of a step.
_BATCH = 256


def step(network: Any, batch: Batch) -> float:
    """Processor time of one step forward and back."""
    network.train()
    network.zero_grad(set_to_none=True)
    begin = time.process_time()
    network.loss(batch, None, 1.0).backward()
    return time.process_time() - begin


def side(method: str, width: int, patients: int, codes: int, whole: bool) -> tuple[Model, Batch]:
    """An untrained model of planted patients, and a batch of them."""
    cohort = planted.simulate(patients, codes, seed=1, whole=whole)
    cohort = Quantizer.of(cohort).banded(cohort)
    settings = settings_from(METHODS[method].settings, {"width": width, "layers": 2})
    model = untrained(settings, cohort)
    return model, model.records(cohort).batch(np.arange(_BATCH))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("repeats", 12), ("patients", 3000), ("codes", 2000), ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--method", default="tailwise")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sides = {whole: side(asked.method, asked.width, asked.patients, asked.codes, whole) for whole in (False, True)}
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(asked.repeats + 1):
        for whole, (model, batch) in sides.items():
            seconds = step(model.network, batch)
            if number:  # the first of each warms up
                took[whole].append(seconds)
    entries = {whole: len(batch.codes) for whole, (_, batch) in sides.items()}
    visits = {whole: batch.n_visits for whole, (_, batch) in sides.items()}
    ratios = [on / off for on, off in zip(took[True], took[False], strict=True)]
    found = {
        "method": asked.method,
        "per_entry": round(statistics.median(ratios) * entries[False] / entries[True], 3),
        "per_visit": round(statistics.median(ratios) * visits[False] / visits[True], 3),
        "step_seconds": [round(statistics.median(took[whole]), 4) for whole in (False, True)],
        "entries": [entries[whole] for whole in (False, True)],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
