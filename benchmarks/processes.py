"""Strong scaling: the same training and the same sample by one process and by two, one thread each.

    python benchmarks/processes.py --json                       # three repeats, about four minutes on two quiet cores
    python benchmarks/processes.py --processes 1,2,4 --repeats 5

The default network on simulated patients, started by `accelerate launch` as docs/scale.md says. A training is timed by
its journal, from its tenth step on, so that starting the program does not count; a sample is timed whole, start
included, because its shards are put together at the end. Numbers of processes take turns; the median of the repeats
counts. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLAGS = ("--multi_gpu", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0")
#: Steps before the clock starts.
WARM = 10


def adapcla(n: int, *arguments: str) -> float:
    """Seconds of a verb run by n processes."""
    command = [sys.executable, "-m", "adapcla"]
    if n > 1:
        command = [sys.executable, "-m", "accelerate.commands.launch", *FLAGS, f"--num_processes={n}"]
        command += ["-m", "adapcla"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ADAPCLA_QUIET": "1"}
    began = time.monotonic()
    subprocess.run([*command, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def steps_a_second(run: Path) -> float:
    """Steps a second after the first few, as the journal has them."""
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step" and line["step"] >= WARM]
    first, last = steps[0], steps[-1]
    return float((last["step"] - first["step"]) / (last["seconds"] - first["seconds"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patients", type=int, default=12_000)
    parser.add_argument("--sampled", type=int, default=65_536)
    options = parser.parse_args()
    counts = [int(part) for part in options.processes.split(",")]
    training: dict[int, list[float]] = {n: [] for n in counts}
    sampling: dict[int, list[float]] = {n: [] for n in counts}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world, run, sample = folder / "world", folder / "run", folder / "sample"
        adapcla(1, "simulate", "--out", str(world), "--patients", str(options.patients))
        for _ in range(options.repeats):
            for n in counts:
                shutil.rmtree(run, ignore_errors=True)
                adapcla(n, "train", str(world), "--out", str(run), "--epochs", "2", "--set", "validations=1")
                training[n].append(steps_a_second(run))
                shutil.rmtree(sample, ignore_errors=True)
                asked = ("--patients", str(options.sampled), "--out", str(sample))
                sampling[n].append(options.sampled / adapcla(n, "sample", str(run), *asked))
    found: dict[str, float] = {}
    for n in counts:
        found[f"train_steps_s_{n}"] = statistics.median(training[n])
        found[f"sample_patients_s_{n}"] = statistics.median(sampling[n])
        found[f"train_speedup_{n}"] = found[f"train_steps_s_{n}"] / found[f"train_steps_s_{counts[0]}"]
        found[f"sample_speedup_{n}"] = found[f"sample_patients_s_{n}"] / found[f"sample_patients_s_{counts[0]}"]
    print(json.dumps({key: round(value, 3) for key, value in found.items()}))


if __name__ == "__main__":
    main()
