"""Seconds of the whole utility and reliability suites of one cohort.

    python benchmarks/utility.py [--patients 40000] [--codes 7000] [--threads 2]

Trains on planted patients of the paper's vocabulary size and judges on others. Prints one JSON line; ends with 1 if the
suites take more than three minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import metrics_of
from adapcla.io import simulator as planted
from adapcla.machine import peak_memory_mb

SECONDS = 180.0


def suites(comparison: Comparison) -> dict[str, Any]:
    """Seconds of each metric (the first of a protocol pays for its training) and its value."""
    out = {}
    for metric in metrics_of(["utility", "reliability"]):
        begin, processor = time.perf_counter(), time.process_time()
        score = metric.compute(comparison)["all"]
        out[metric.key] = {
            "value": None if score.value is None else round(score.value, 4),
            "seconds": round(time.perf_counter() - begin, 1),
            "processor_seconds": round(time.process_time() - processor, 1),
        }
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--patients", type=int, default=40_000)
    parser.add_argument("--codes", type=int, default=7_000)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    everybody = planted.simulate(patients=round(asked.patients * 1.25), codes=asked.codes, seed=1)
    train = everybody.subset(np.arange(asked.patients))
    test = everybody.subset(np.arange(asked.patients, everybody.n_patients))
    comparison = Comparison.of(train, test, train)
    measured: dict[str, Any] = {"patients": asked.patients, "codes": asked.codes, "threads": asked.threads}
    begin = time.perf_counter()
    measured["metrics"] = suites(comparison)
    measured["seconds"] = round(time.perf_counter() - begin, 1)
    measured["peak_megabytes"] = peak_memory_mb()
    print(json.dumps(measured))
    return int(measured["seconds"] > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
