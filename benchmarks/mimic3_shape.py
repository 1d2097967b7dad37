"""How long it takes to train on a cohort in the shape of MIMIC-III, to the best validation loss, by early stopping.

    python benchmarks/mimic3_shape.py --json                     # two threads, needs a quiet machine
    python benchmarks/mimic3_shape.py --method tailwise --json
    python benchmarks/mimic3_shape.py --quick --json             # a look

33,494 training patients of the planted world (7,000 codes, about 11 a visit), whose records are cut at random so that a
patient has 1.26 visits in the mean, as the 46,520 patients and 58,976 stays there; a ninth as many validation
patients; no days and no attributes, which the paper's rows do not see either. Wall seconds run from the first step to
the end, validation included; beside them the seconds until the best weights had been seen. Prints one JSON object as
its last line; ends with 1 if training took more than 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from adapcla.data import Cohort
from adapcla.io.simulator import simulate
from adapcla.machine import peak_memory_mb
from adapcla.seeds import random_stream as stream

PATIENTS, CODES, VISITS, MINUTES = 33_494, 7_000, 1.26, 15.0


def cut_to(cohort: Cohort, mean: float, seed: int) -> Cohort:
    """The same patients with the last visits of their records, so that they have `mean` visits on average.

    A record reaches back from each visit to the one before with one chance for all, found by halving. The last visits
    are kept because they have as many codes as the real ones; the first have fewer.
    """
    draws = stream(seed, "cut").random(cohort.n_patients)
    whole = cohort.visits_per_patient
    low, high = 0.0, 1.0
    for _ in range(50):
        chance = (low + high) / 2
        kept = np.minimum(whole, 1 + np.floor(np.log(draws) / np.log(chance)).astype(np.int64))
        low, high = (chance, high) if kept.mean() < mean else (low, chance)
    ends = np.asarray(cohort.patient_starts[1:])
    return replace(cohort.with_visits(ends - kept, ends), days=None, attributes={})


def trained(method: str, patients: int, threads: int, changes: dict[str, Any]) -> dict[str, Any]:
    """What training came to, and what it was trained on."""
    from adapcla.generation import generator_for

    train = cut_to(simulate(patients, CODES, seed=1), VISITS, 1)
    valid = cut_to(simulate(max(patients // 9, 1), CODES, seed=2), VISITS, 2)
    generator = generator_for(method, threads=threads, **changes)
    wall, cpu = time.perf_counter(), time.process_time()
    generator.fit(train, valid)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = generator.outcome_
    looks = done.journal.of_kind("validation")
    best = next((row["seconds"] for row in looks if row["step"] == done.best_step), None)
    return {
        "method": method, "threads": threads, "patients": train.n_patients, "valid_patients": valid.n_patients,
        "codes_used": int((train.visit_counts > 0).sum()), "visits_a_patient": round(train.n_visits / patients, 3),
        "codes_per_visit": round(train.n_entries / train.n_visits, 2), "steps": done.steps, "of_steps": done.n_steps,
        "stopped_early": done.stopped_early, "best_step": done.best_step,
        "best_validation_nats_a_visit": round(done.best_loss, 4), "loss_by_look": [round(r["loss"], 3) for r in looks],
        "seconds_to_best": best, "wall_seconds": round(wall, 1), "cpu_seconds": round(cpu, 1),
        "peak_mb": peak_memory_mb(),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="adapcla")
    parser.add_argument("--quick", action="store_true", help="1,500 patients and two passes, for a look")
    parser.add_argument("--patients", type=int, help="training patients")
    parser.add_argument("--passes", type=float, help="another budget than the method's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    passes = asked.passes or (2.0 if asked.quick else None)
    patients = asked.patients or (1_500 if asked.quick else PATIENTS)
    found = trained(asked.method, patients, asked.threads, {} if passes is None else {"passes": passes})
    print(json.dumps(found))
    return int(found["wall_seconds"] > 60 * MINUTES)


if __name__ == "__main__":
    sys.exit(main())
