"""What a step of training costs against the size of the vocabulary, the number of patients and their visits.

    python benchmarks/cost.py --out results/speed          # page and figure
    python benchmarks/cost.py --quick                      # fewer sizes and repeats, for a look

Processor seconds of one thread at the default size of the network, the sizes interleaved inside each repeat, so that a
busy machine slows all alike. A slope is that of the logarithm of the cost over the logarithm of the size: 1 is linear,
below 1 is better; its interval is that of the mean over repeats. Peak memory is that of a process of its own which
trains 64 visits per patient over 10,000 codes. Prints one JSON object as its last line; ends with 1 where a slope lies
above 1 with its whole interval, or memory above 3 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from speed import prepared

from adapcla.data import Cohort, Vocabulary
from adapcla.data.offsets import starts_of
from adapcla.evaluation.intervals import mean_half
from adapcla.machine import peak_memory_mb
from adapcla.models.base import Moment
from adapcla.seeds import random_stream as stream
from adapcla.training.loop import Loop

CODES_A_VISIT, MEMORY_GB = 11, 3.0
#: Slopes of visits per patient are taken from here on: the states of first visits are shared, so that the first two
#: visits of a patient are nearly free and the cost of one more is at its full height only later.
FROM_VISITS = 4


def cohort_of(patients: int, n_codes: int, visits: int | None) -> Cohort:
    """Zipf codes, eleven per visit, with so many visits per patient, or a geometric number of 2.6 in the mean."""
    rng = stream(1, "cost", patients, n_codes)
    lengths = np.full(patients, visits) if visits else np.minimum(rng.geometric(1 / 2.6, patients), 46)
    weight = 1 / np.arange(1, n_codes + 1) ** 1.05
    edges = np.cumsum(weight) / weight.sum()
    n_visits = int(lengths.sum())
    drawn = np.minimum(np.searchsorted(edges, rng.random(n_visits * CODES_A_VISIT)), n_codes - 1)
    key = np.unique(np.repeat(np.arange(n_visits), CODES_A_VISIT) * n_codes + drawn)
    visit, codes = np.divmod(key, n_codes)
    vocabulary = Vocabulary.of(f"C{i:06d}" for i in range(n_codes))
    return Cohort(vocabulary, codes.astype(np.int32), starts_of(np.bincount(visit)), starts_of(lengths))


@dataclass
class Point:
    """A size on a curve, and how a step's seconds become the cost that is plotted there."""

    size: int
    loop: Loop
    factor: float
    seconds: list[float]

    def step(self, number: int) -> None:
        """One timed step."""
        began = time.process_time()
        self.loop._update(Moment(number, self.loop.n_steps, 1))
        self.seconds.append(time.process_time() - began)


def codes_curve(sizes: list[int]) -> list[Point]:
    """Seconds per visit against the number of codes."""
    points = []
    for n_codes in sizes:
        cohort = cohort_of(2048, n_codes, None)
        _, loop = prepared("adapcla", cohort, batch_size=256)
        points.append(Point(n_codes, loop, cohort.n_patients / cohort.n_visits / 256, []))
    return points


def patients_curve(sizes: list[int]) -> list[Point]:
    """Seconds a pass against the number of patients."""
    points = []
    for n in sizes:
        _, loop = prepared("adapcla", cohort_of(n, 1000, None), batch_size=256)
        points.append(Point(n, loop, math.ceil(n / 256), []))
    return points


def visits_curve(sizes: list[int]) -> list[Point]:
    """Seconds per patient against its number of visits, with 1,024 visits per step."""
    points = []
    for visits in sizes:
        batch = 1024 // visits
        _, loop = prepared("adapcla", cohort_of(8 * batch, 2000, visits), batch_size=batch, context=64)
        points.append(Point(visits, loop, 1 / batch, []))
    return points


CURVES = {
    "codes": (codes_curve, [500, 1000, 2000, 4000, 8000, 16000], "codes", "seconds per visit"),
    "patients": (patients_curve, [1000, 4000, 16000, 64000, 256000], "patients", "seconds a pass"),
    "visits": (visits_curve, [1, 2, 4, 8, 16, 32, 64], "visits per patient", "seconds per patient"),
}


def measured(name: str, repeats: int, sizes: list[int]) -> dict[str, Any]:
    """Costs of a curve, the slope of their logarithms with its interval, and the straight line through them."""
    points = CURVES[name][0](sizes)
    for number in range(repeats + 1):
        for point in points:
            point.step(number)
    # The first step of each warms up.
    costs = np.array([[s * p.factor for s in p.seconds[1:]] for p in points])
    x = np.array([p.size for p in points], dtype=float)
    far = x >= FROM_VISITS if name == "visits" else x > 0
    slopes = [np.polyfit(np.log(x[far]), np.log(costs[far, r]), 1)[0] for r in range(repeats)]
    middle = np.median(costs, axis=1)
    line = stats.linregress(x, middle)
    half = mean_half(slopes)
    return {
        "sizes": [int(s) for s in x],
        "cost": [float(f"{c:.4g}") for c in middle],
        "low": [float(f"{c:.4g}") for c in np.quantile(costs, 0.25, axis=1)],
        "high": [float(f"{c:.4g}") for c in np.quantile(costs, 0.75, axis=1)],
        "slope": round(float(np.mean(slopes)), 3),
        "interval": [round(float(np.mean(slopes)) - half, 3), round(float(np.mean(slopes)) + half, 3)],
        "line_r2": round(float(line.rvalue**2), 4),
    }


def long_records() -> None:
    """Train a whole batch and validate on 64 visits per patient over 10,000 codes; print the peak in GB."""
    cohort = cohort_of(256, 10_000, 64)
    _, loop = prepared("adapcla", cohort, context=64, validations=1, passes=1)
    loop.run()
    print(peak_memory_mb() / 1000)


def peak_memory() -> float:
    """GB of a fresh process that trains long records over a wide vocabulary."""
    command, alone = [sys.executable, __file__, "--long-records"], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    return round(float(done.stdout.split()[-1]), 2)


def written(found: dict[str, Any], folder: Path) -> None:
    """A page and a figure."""
    from adapcla.report import style

    folder.mkdir(parents=True, exist_ok=True)
    with style.panels(1, 3, width=3.6) as (figure, axes):
        for panel, (name, (_, _, against, cost)) in zip(axes[0], CURVES.items(), strict=True):
            curve = found[name]
            x, y = np.array(curve["sizes"], dtype=float), np.array(curve["cost"])
            panel.fill_between(x, curve["low"], curve["high"], alpha=0.25, linewidth=0)
            panel.plot(x, y, marker="o")
            panel.plot(x, y[-1] * x / x[-1], linestyle=":", color=style.FAINT, label="linear")
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xticks(x, [f"{size:,.0f}" for size in x], rotation=30)
            panel.set_xticks([], minor=True)
            panel.set_xlabel(against)
            panel.set_ylabel(cost)
            panel.set_title(f"slope {curve['slope']:.2f}")
        axes[0, 0].legend()
        style.save(figure, folder / "cost.svg")
    (folder / "cost.md").write_text(page(found))


def page(found: dict[str, Any]) -> str:
    """The page about cost."""
    rows = []
    for name, (_, _, against, cost) in CURVES.items():
        curve = found[name]
        low, high = curve["interval"]
        span = f"{curve['sizes'][0]:,} … {curve['sizes'][-1]:,}"
        rows.append(
            f"| {cost} against {against} | {span} | {curve['cost'][0]:.2g} … {curve['cost'][-1]:.2g} | "
            f"{curve['slope']:.2f} ({low:.2f} to {high:.2f}) | {curve['line_r2']:.3f} |"
        )
    return f"""# What training costs against the size of the data

Processor seconds of one thread, default size (width 256, 4 layers), `adapcla` row:

```console
$ python benchmarks/cost.py --out results/speed
```

| cost | sizes | seconds | slope of logarithms (95 % over {found["repeats"]} repeats) | R² of a straight line |
|---|---|---|---|---|
{chr(10).join(rows)}

![cost](cost.svg)

1 is linear, below 1 is better. The slope of visits per patient is taken from {FROM_VISITS} visits on: the states of
first visits are shared by all patients, so that the codes of a record of one visit cost nearly nothing, and a slope
from there would show the sharing and not the growth.

Peak memory of training 64 visits per patient over 10,000 codes, default size: {found["peak_gb"]:.2f} GB
(limit {MEMORY_GB:.0f} GB).
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every other size, three repeats")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, help="folder for page and figure")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--long-records", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    os.environ["ADAPCLA_QUIET"] = "1"
    if asked.long_records:
        long_records()
        return 0
    repeats = 3 if asked.quick else asked.repeats
    found: dict[str, Any] = {"repeats": repeats, "peak_gb": peak_memory()}
    for name, (_, sizes, _, _) in CURVES.items():
        found[name] = measured(name, repeats, sizes[::2] if asked.quick else sizes)
    if asked.out:
        written(found, asked.out)
    print(json.dumps(found))
    steep = [name for name in CURVES if found[name]["interval"][0] > 1]
    return int(bool(steep) or found["peak_gb"] > MEMORY_GB)


if __name__ == "__main__":
    sys.exit(main())
