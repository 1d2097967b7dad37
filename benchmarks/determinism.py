"""Train, sample and evaluate again and again in different surroundings: the same bytes each time.

python benchmarks/determinism.py --quick --json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = ("width=16", "layers=1", "heads=2", "batch_size=64", "validations=2", "threads=1", "dropout=0.2")
#: Locales to try; where one is not installed the process falls back, which is a difference too.
LOCALES = ("C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.UTF-8")
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia")


def adapcla(where: Path, surroundings: dict[str, str], *arguments: str) -> None:
    """Run a verb; anything but success ends the benchmark."""
    ended = subprocess.run(
        [sys.executable, "-m", "adapcla", "--quiet", *arguments],
        cwd=where, env=os.environ | surroundings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise SystemExit(f"adapcla {arguments[0]} ended with {ended.returncode}: {ended.stderr[-500:]}")


def digest(folder: Path) -> str:
    """One hash of the names and bytes of all files of a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        whole.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def copy(source: Path, target: Path, backwards: bool) -> None:
    """Make the folder again, its files made in another order, so that listing them may give another order too."""
    target.mkdir(parents=True)
    for path in sorted(source.iterdir(), reverse=backwards):
        (target / path.name).write_bytes(path.read_bytes())


def repeat(root: Path, number: int) -> dict[str, str]:
    """The hashes that one repeat ends in, in surroundings of its own."""
    here = root / f"repeat {number}" / ("deeper" if number % 2 else "é")
    here.mkdir(parents=True)
    surroundings = {
        "PYTHONHASHSEED": str(number * 7919), "LC_ALL": LOCALES[number % len(LOCALES)],
        "TZ": ZONES[number % len(ZONES)], "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(here / "cache")
    }  # fmt: skip
    for name in ("train", "valid", "test"):
        copy(root / "parts" / name, here / name, number % 2 == 1)
    settings = [part for item in SETTINGS for part in ("--set", item)]
    # A relative path in one, an absolute one in the next.
    divided, train = (".", "train") if number % 2 else (str(here), str(here / "train"))
    adapcla(here, surroundings, "train", divided, "--out", "run", "--epochs", "2", *settings)
    adapcla(here, surroundings, "sample", "run", "--patients", "400", "--out", "sample")
    cohorts = ["--train", train, "--test", "test", "--synthetic", "sample"]
    adapcla(here, surroundings, "evaluate", *cohorts, "--suites", "tail,fidelity", "--quick", "--out", "scores")
    return {
        "model": digest(here / "run" / "model"),
        "sample": digest(here / "sample"),
        "scores": digest(here / "scores"),
    }


def measure(root: Path, repeats: int, workers: int) -> dict[str, object]:
    """How many different results there are of each kind; 1 is right."""
    began = time.monotonic()
    adapcla(root, {}, "simulate", "--patients", "500", "--codes", "60", "--out", "cohort")
    adapcla(root, {}, "split", "cohort", "--out", "parts")
    one: Callable[[int], dict[str, str]] = lambda number: repeat(root, number)  # noqa: E731
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(one, range(repeats)))
    different = {kind: len({result[kind] for result in found}) for kind in ("model", "sample", "scores")}
    return {"repeats": repeats, "different": different, "seconds": round(time.monotonic() - began)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="4 repeats instead of 20")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--workers", type=int, default=2, help="repeats at once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), 4 if arguments.quick else 20, arguments.workers)
    print(json.dumps(result))
    if set(result["different"].values()) != {1}:  # type: ignore[attr-defined]
        sys.exit("the surroundings changed a result")


if __name__ == "__main__":
    main()
