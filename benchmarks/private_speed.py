"""What the gradients of single patients cost, in processor time of one thread: `python benchmarks/private_speed.py`.

The default network on the paper's number of codes. The plain step is forward and backward of the summed loss. Norms
alone are what training with privacy does for this network, one by one what it does for all others. Opacus's samples
are those of its hooks on the trunk's layers alone, which see rows, not patients: a part of what it would take. The last
line of the output is one JSON object: milliseconds per patient, and megabytes that the samples hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule
from speed import prepared, zipf_cohort
from torch import nn

from adapcla.models.base import Moment
from adapcla.training.ghost_clipping import clipped_by_norms
from adapcla.training.private_step import clipped_one_by_one

MOMENT = Moment(1, 10, 1)


def spent(action: Callable[[], object], repeats: int) -> float:
    """The median processor time of an action, the first time left out."""
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _, loop = prepared("adapcla", zipf_cohort(1024))
    objective, records = loop.objective, loop.train
    parameters, everyone = list(objective.modules.parameters()), np.arange(asked.patients)
    objective.modules.train()

    def plain() -> None:
        objective.loss(records.batch(everyone), MOMENT).backward()

    seconds = {
        "plain": spent(plain, asked.repeats),
        "norms alone": spent(
            lambda: clipped_by_norms(objective, records, everyone, MOMENT, parameters, 1.0), asked.repeats
        ),
        "one by one": spent(
            lambda: clipped_one_by_one(objective, records, everyone, MOMENT, parameters, 1.0), asked.repeats
        ),
    }
    trunk: Any = objective.modules.trunk
    layers = [m for m in trunk.modules() if type(m) in GradSampleModule.GRAD_SAMPLERS]
    watched = GradSampleModule(nn.ModuleList(layers), strict=False, loss_reduction="sum")

    def sampled() -> None:
        watched.zero_grad(set_to_none=True)
        plain()

    seconds["samples of Opacus"] = spent(sampled, asked.repeats)
    samples: list[Any] = [getattr(parameter, "grad_sample", None) for parameter in parameters]
    held = sum(sample.numel() * 4 for sample in samples if sample is not None)
    found = {name: round(1000 * value / asked.patients, 2) for name, value in seconds.items()}
    print(json.dumps({"patients": asked.patients, "ms a patient": found, "MB of samples": round(held / 2**20)}))


if __name__ == "__main__":
    main()
