"""Seconds of the whole utility and reliability suites of one cohort, and stacked against separate training.

    python benchmarks/utility.py [--patients 40000] [--codes 7000] [--separate 3] [--threads 2]

Trains on planted patients of the paper's vocabulary size and judges on others. `--separate k` trains the classifiers
of k labels alone as well and compares: seconds, largest difference of a probability, and the differences of AUPRC
beside those between two seeds. Prints one JSON line; ends with 1 if the suites take more than three minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from adapcla.machine import peak_memory_mb
from adapcla.metrics import utility
from adapcla.metrics.classifiers import fit, predict
from adapcla.metrics.contract import Comparison
from adapcla.metrics.curves import average_precision
from adapcla.metrics.protocols import balanced_trial
from adapcla.metrics.table import metrics_of
from adapcla.sources import planted

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


def stacked_against_separate(comparison: Comparison, n_labels: int) -> dict[str, Any]:
    """The same classifiers trained side by side and one by one."""
    sets = balanced_trial(comparison.synthetic, comparison.test, utility.rule_of(comparison), comparison.seed)
    assert sets.trial is not None
    chosen = list(range(min(n_labels, len(sets.learned))))
    train, valid, test = (part.part(chosen) for part in (sets.trial.train, sets.trial.valid, sets.trial.test))
    begin = time.perf_counter()
    together = predict(fit(train, valid, 1, numbers=chosen), test)
    stacked = time.perf_counter() - begin
    begin = time.perf_counter()
    alone = [
        predict(fit(train.part([i]), valid.part([i]), 1, numbers=[i]), test.part([i]))[0] for i in range(len(chosen))
    ]
    separate = time.perf_counter() - begin
    other = predict(fit(train, valid, 2, numbers=chosen), test)

    def areas(said: list[Any]) -> Any:
        return np.array(
            [
                average_precision(truth[:, 0], each[:, 0], np.ones((len(each), 1), int))[0]
                for truth, each in zip(test.targets, said, strict=True)
            ]
        )

    return {
        "labels": len(chosen),
        "stacked_seconds": round(stacked, 1),
        "separate_seconds": round(separate, 1),
        "largest_probability_difference": max(float(np.abs(a - b).max()) for a, b in zip(together, alone, strict=True)),
        "largest_auprc_difference": float(np.abs(areas(together) - areas(alone)).max()),
        "largest_auprc_difference_between_seeds": float(np.abs(areas(together) - areas(other)).max()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--patients", type=int, default=40_000)
    parser.add_argument("--codes", type=int, default=7_000)
    parser.add_argument("--separate", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    everybody = planted.simulate(patients=round(asked.patients * 1.25), codes=asked.codes, seed=1)
    train = everybody.subset(np.arange(asked.patients))
    test = everybody.subset(np.arange(asked.patients, everybody.n_patients))
    comparison = Comparison.of(train, test, train)
    measured: dict[str, Any] = {"patients": asked.patients, "codes": asked.codes, "threads": asked.threads}
    if asked.separate:
        measured["stacking"] = stacked_against_separate(comparison, asked.separate)
    begin = time.perf_counter()
    measured["metrics"] = suites(comparison)
    measured["seconds"] = round(time.perf_counter() - begin, 1)
    measured["peak_megabytes"] = peak_memory_mb()
    print(json.dumps(measured))
    return int(measured["seconds"] > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
