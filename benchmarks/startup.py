"""How long `adapcla --help` takes, as a ratio to loading the two libraries that any such command line needs.

    python benchmarks/startup.py --json

The two are run in turn, so that a busy machine slows both alike, and medians are compared. Seconds are those of the
wall; the ratio of processor seconds is given beside it, because it hardly depends on what else is running.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

GOAL = 1.5
COMMANDS = {
    "libraries": [sys.executable, "-c", "import typer, rich"],
    "help": [str(Path(sys.executable).with_name("adapcla")), "--help"],
}


def seconds(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of one run."""
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def measure(repeats: int) -> dict[str, float | int | bool]:
    """Medians over interleaved runs, after one run of each to warm the disk."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for turn in range(repeats + 1):
        for name, command in COMMANDS.items():
            taken = seconds(command)
            if turn:
                runs[name].append(taken)
    wall = {name: median(run[0] for run in taken) for name, taken in runs.items()}
    cpu = {name: median(run[1] for run in taken) for name, taken in runs.items()}
    ratio = wall["help"] / wall["libraries"]
    return {
        "help_seconds": round(wall["help"], 4),
        "libraries_seconds": round(wall["libraries"], 4),
        "ratio": round(ratio, 3),
        "cpu_ratio": round(cpu["help"] / cpu["libraries"], 3) if cpu["libraries"] else 0.0,
        "goal": GOAL,
        "repeats": repeats,
        "met": ratio <= GOAL,
    }


def main() -> None:
    """Print the measurement as one JSON object; end with 1 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the only form there is, so that asking for it is no error")
    parser.add_argument("--repeats", type=int, default=15)
    found = measure(parser.parse_args().repeats)
    print(json.dumps({"benchmark": "startup", **found}))
    sys.exit(0 if found["met"] else 1)


if __name__ == "__main__":
    main()
