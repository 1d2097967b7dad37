"""A training step of a method as the code is over one of an earlier commit, in turn, processor time.

    python benchmarks/step_beside.py [--commit 3389d69] [--here 'order = "frequent"'] [--codes 2000] [--patients 6000]
        [--bare]

The commit is the last before there was a prior over pairs, if nothing is said. Both sides have their own process and
one thread, draw the same made-up patients and fit for one pass, so that a step is that of a network in use; `--here`
are settings of this side alone, and `--bare` takes patients without age and sex, whose first visits all begin alike.
Prints one JSON object: the median ratio, the seconds behind it, and the peak memory in MB.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

#: The last commit without a prior over pairs.
_BEFORE_PAIRS = "3389d69"
#: What a side runs: it makes a step for every line it reads, and answers with its seconds and the peak of memory.
_SIDE = """
import dataclasses, json, resource, sys, time
import numpy as np, torch
try:
    from adapcla.generation import generator_for
    from adapcla.io import simulator as planted
except ModuleNotFoundError:  # a commit with the packages' former names
    from adapcla.generators import generator_for
    from adapcla.sources import planted
method, settings, bare = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
codes, patients, width, batch_size = map(int, sys.argv[4:])
torch.set_num_threads(1)
cohort = planted.simulate(patients=patients, codes=codes, seed=1)
train, valid, _ = (dataclasses.replace(cohort, attributes={}) if bare else cohort).split(seed=4)
generator = generator_for(method, width=width, layers=2, passes=1, calibration_rounds=0, **settings)
generator.fit(train, valid)
model = generator.model
network, batch = model.network, model.records(train).batch(np.arange(batch_size))
network.train()
print("ready", flush=True)
for _ in sys.stdin:
    begin = time.process_time()
    network.zero_grad(set_to_none=True)
    network.loss(batch, None, 1.0).backward()
    took = time.process_time() - begin
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
"""


class Side:
    """A checkout in a process of its own."""

    def __init__(self, checkout: Path, method: str, settings: dict[str, Any], bare: bool, sizes: list[int]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        arguments = [method, json.dumps(settings), json.dumps(bare), *map(str, sizes)]
        self.process = subprocess.Popen([sys.executable, "-c", _SIDE, *arguments], env=environment, **pipes)
        if self._line() != "ready":
            sys.exit(f"{checkout}: the method could not be fitted there; the reason stands above")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).strip()

    def step(self) -> tuple[float, float]:
        """Seconds of a step, and the peak of memory so far in MB."""
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        seconds, memory = map(float, self._line().split())
        return seconds, memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=_BEFORE_PAIRS, help="the commit to be measured beside")
    parser.add_argument("--method", default="tailwise")
    for name, value in (("codes", 2000), ("patients", 6000), ("width", 128), ("batch", 256), ("repeats", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--here", default="", help="settings of this checkout alone, as lines of TOML")
    parser.add_argument("--bare", action="store_true", help="patients without attributes")
    asked = parser.parse_args()
    sizes = [asked.codes, asked.patients, asked.width, asked.batch]
    settings = tomllib.loads(asked.here.replace(";", "\n"))
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        unpack(root, asked.commit, Path(folder))
        sides = [(root, settings), (Path(folder), {})]
        measure(asked, *(Side(where, asked.method, own, asked.bare, sizes) for where, own in sides))


def unpack(root: Path, commit: str, folder: Path) -> None:
    """The sources of a commit into a folder."""
    packed = subprocess.run(["git", "-C", str(root), "archive", commit, "src"], capture_output=True)
    if packed.returncode:
        sys.exit(f"{packed.stderr.decode().strip()}\nexpected a clone that holds {commit}: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def measure(asked: argparse.Namespace, here: Side, other: Side) -> None:
    """Steps of both sides in turn, and what they took."""
    for side in (here, other):  # the first step of a process also reserves memory
        side.step()
    took = [(here.step(), other.step()) for _ in range(asked.repeats)]
    out: dict[str, Any] = {"method": asked.method, "commit": asked.commit, "here": asked.here}
    out |= {"bare": asked.bare, "codes": asked.codes}
    out["step_here_over_other"] = round(statistics.median(a[0] / b[0] for a, b in took), 3)
    out["step_seconds"] = [round(statistics.median(pair[n][0] for pair in took), 4) for n in (0, 1)]
    out["peak_mb"] = [round(took[-1][n][1]) for n in (0, 1)]
    print(json.dumps(out))


if __name__ == "__main__":
    main()
