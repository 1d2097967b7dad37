"""Kills, full disks and two processes on one folder: every run must end in the bytes of the undisturbed one.

python benchmarks/faults.py --quick --json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: A model so small that a run is mostly saves: a checkpoint after each step.
TINY = {"width": 16, "layers": 1, "heads": 2, "batch_size": 32, "checkpoint_seconds": 0, "validations": 4, "threads": 1}
#: Points of a save, and how often a training run passes each at least.
POINTS = {"write": 60, "fsync": 60, "rename": 60, "folder": 60, "pointer": 30, "prune": 30, "place": 1, "placed": 1}
#: What a complete run folder holds.
COMPLETE = {".lock", "asked.json", "outcome.json", "environment.json", "journal.jsonl", "model"}
PATIENTS = 40_000


@dataclass
class Outcome:
    """How a command ended."""

    code: int
    text: str
    seconds: float


@dataclass
class Bench:
    """A folder with small cohorts in which commands are run and killed."""

    root: Path
    draws: random.Random
    kills: int = 0
    failures: list[str] = field(default_factory=list)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The command, running."""
        here = {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(self.root / "cache"), **environment}
        return subprocess.Popen(
            [sys.executable, "-m", "adapcla", *arguments],
            cwd=self.root, env=os.environ | here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments: str, kill_after: float | None = None, **environment: str) -> Outcome:
        """The command to its end, or to a kill -9 after some seconds."""
        began = time.monotonic()
        process = self.start(*arguments, **environment)
        try:
            _, text = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            _, text = process.communicate()
        self.kills += process.returncode == -9
        return Outcome(process.returncode, text, time.monotonic() - began)

    def must(self, *arguments: str) -> Outcome:
        """The command, which must end well."""
        ended = self.run(*arguments)
        if ended.code:
            raise SystemExit(f"adapcla {' '.join(arguments)} ended with {ended.code}: {ended.text}")
        return ended

    def same(self, what: str, condition: bool) -> bool:
        """Whether it is the same; what is not is printed at once and at the end."""
        if not condition:
            print(what, file=sys.stderr, flush=True)
            self.failures.append(what)
        return condition


def training(out: Path | str, passes: int = 4) -> list[str]:
    """The command that every training run here is."""
    settings = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    return ["train", "cohort", "--out", str(out), "--epochs", str(passes), *settings]


def weights(run: Path) -> str:
    """The SHA-256 of the weights that a run ended in; empty if it has none."""
    path = run / "model" / "weights.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def content(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def prepare(root: Path, seed: int = 1) -> tuple[Bench, Outcome]:
    """The cohorts, and an undisturbed run to compare with."""
    bench = Bench(root, random.Random(seed))
    bench.must("simulate", "--patients", "400", "--codes", "60", "--out", "cohort")
    bench.must("split", "cohort", "--out", "parts")
    return bench, bench.must(*training("whole"))


# ---- training ---------------------------------------------------------------------------------------------
def kill_training(bench: Bench, name: str, times: list[float]) -> bool:
    """Whether a run killed after these seconds, and resumed each time, ends in the same weights."""
    for seconds in times:
        bench.run(*training(name), "--resume", kill_after=seconds)
    return resume_and_compare(bench, name)


def crash_training(bench: Bench, point: str, number: int) -> bool:
    """Whether a run that dies when it passes a point of a save, and is resumed, ends in the same weights."""
    name = f"{point}-{number}"
    died = bench.run(*training(name), ADAPCLA_CRASH_AT=f"{point}:{number}")
    return bench.same(f"{name} was not reached", died.code == -9) and resume_and_compare(bench, name)


def resume_and_compare(bench: Bench, name: str) -> bool:
    """Whether the run, resumed to its end, has the weights of the undisturbed one and left nothing lying about."""
    ended = bench.run(*training(name), "--resume")
    good = bench.same(f"{name}: exit {ended.code}, {ended.text.strip()[-200:]}", ended.code == 0)
    alike = weights(bench.root / name) == weights(bench.root / "whole")
    left = {path.name for path in (bench.root / name).iterdir()} - COMPLETE
    return good and bench.same(f"{name}: other weights", alike) and bench.same(f"{name}: left {left}", not left)


# ---- sampling and evaluation ------------------------------------------------------------------------------
def sampling(out: str) -> list[str]:
    """The command that every sampling run here is."""
    return ["sample", "whole", "--patients", str(PATIENTS), "--set", "max_visits=3", "--out", out]


def kill_sampling(bench: Bench, name: str, seconds: float, crash: str = "") -> bool:
    """Whether a killed and resumed sample is the undisturbed one, byte by byte, with nothing left beside it."""
    bench.run(*sampling(name), "--resume", kill_after=None if crash else seconds, ADAPCLA_CRASH_AT=crash)
    ended = bench.run(*sampling(name), "--resume")
    good = bench.same(f"{name}: exit {ended.code}, {ended.text.strip()[-200:]}", ended.code == 0)
    left = [path.name for path in bench.root.iterdir() if path.name.startswith(f".{name}.")]
    alike = good and content(bench.root / name) == content(bench.root / "sample")
    return good and bench.same(f"{name}: other bytes", alike) and bench.same(f"{name}: left {left}", not left)


def evaluation(out: str, cache: str) -> list[str]:
    """The command that every evaluation here is."""
    cohorts = ["--train", "parts/train", "--test", "parts/test", "--synthetic", "parts/valid"]
    return ["evaluate", *cohorts, "--quick", "--suites", "tail,fidelity", "--out", out, "--set", f"cache={cache}"]


def kill_evaluation(bench: Bench, name: str, seconds: float) -> bool:
    """Whether an evaluation that was killed and begun again gives the same scores."""
    bench.run(*evaluation(name, f"{name}-cache"), kill_after=seconds)
    ended = bench.run(*evaluation(name, f"{name}-cache"), "--overwrite")
    alike = ended.code == 0 and content(bench.root / name) == content(bench.root / "scores")
    return bench.same(f"{name}: exit {ended.code}, other scores", alike)


# ---- folders and disks ------------------------------------------------------------------------------------
def two_processes(bench: Bench) -> dict[str, bool]:
    """A second process on a run folder is refused; when the first was killed, its hold is gone."""
    first = bench.start(*training("shared", 400))
    while not (bench.root / "shared" / "asked.json").exists() and first.poll() is None:
        time.sleep(0.02)
    seconds = [bench.run(*training("shared", 400), flag) for flag in ("--resume", "--overwrite")]
    alive = first.poll() is None
    first.kill()
    first.communicate()
    bench.kills += 1
    again = bench.run(*training("shared"), "--overwrite")
    refused = alive and all(ended.code == 4 and "in use" in ended.text for ended in seconds)
    return {
        "second_refused": bench.same(f"second process: {[s.code for s in seconds]}", refused),
        "stale_lock_taken_over": bench.same(
            f"stale lock: {again.code}",
            again.code == 0 and weights(bench.root / "shared") == weights(bench.root / "whole"),
        ),
    }  # fmt: skip


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """A file system of so many bytes at `folder`; False where this user may not make one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        made = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        made = False
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", str(folder)], check=False)


def disk_full(bench: Bench, points: int) -> dict[str, object]:
    """Runs on disks with too little room: named with the bytes needed, nothing complete is lost, resumed when freed."""
    whole = sum(path.stat().st_size for path in (bench.root / "whole").rglob("*") if path.is_file())
    named = survived = 0
    for number in range(points):
        disk = bench.root / f"disk-{number}"
        with small_disk(disk, 64 << 20) as made:
            if not made:
                return {"skipped": "a small disk can be mounted by root only"}
            room = int(whole * 2.2 * (number + 0.5) / points)
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            (disk / "ballast").write_bytes(bytes(max(0, free - room)))
            ended = bench.run(*training(disk / "run"))
            named += bench.same(
                f"disk {number}, {room} bytes: exit {ended.code}, {ended.text.strip()[-200:]}",
                ended.code == 0 or (ended.code == 4 and "bytes are needed" in ended.text),
            )
            (disk / "ballast").unlink()
            begun = any((disk / "run").glob("[!.]*")) if (disk / "run").exists() else False
            again = bench.run(*training(disk / "run"), *(["--resume"] if begun else ["--overwrite"]))
            alike = again.code == 0 and weights(disk / "run") == weights(bench.root / "whole")
            survived += bench.same(f"disk {number}: exit {again.code} when freed", alike)
    return {"points": points, "named": named, "resumed_identical": survived}


# ---- all together -----------------------------------------------------------------------------------------
def measure(root: Path, quick: bool, workers: int, seed: int) -> dict[str, object]:
    """Everything, as one JSON object."""
    began = time.monotonic()
    bench, whole = prepare(root, seed)
    draws = bench.draws
    n_runs, n_points, n_samples, n_evaluations, n_disks = (4, 1, 3, 2, 2) if quick else (50, 6, 50, 20, 20)
    jobs: list[Callable[[], bool]] = []
    for number in range(n_runs):
        times = [draws.uniform(0.2, 1.0) * whole.seconds for _ in range(draws.randint(1, 3))]
        jobs.append(lambda n=number, t=times: kill_training(bench, f"run-{n}", t))  # type: ignore[misc]
    for point, most in POINTS.items():
        numbers = sorted({1, *(draws.randint(2, most) for _ in range(n_points))} if most > 1 else {1})
        jobs += [lambda p=point, n=n: crash_training(bench, p, n) for n in numbers[-n_points:]]  # type: ignore[misc]
    sample = bench.must(*sampling("sample"))
    crashes = ["write:2", "rename:1", "folder:3", "place:1", "placed:1"]
    samples: list[Callable[[], bool]] = []
    for number in range(n_samples):
        crash = crashes[number] if number < len(crashes) and (number % 2 == 0 or not quick) else ""
        after = draws.uniform(0.3, 1.0) * sample.seconds
        samples.append(lambda n=number, a=after, c=crash: kill_sampling(bench, f"sample-{n}", a, c))  # type: ignore[misc]
    scored = bench.must(*evaluation("scores", "scores-cache"))
    scores: list[Callable[[], bool]] = []
    for number in range(n_evaluations):
        after = draws.uniform(0.3, 1.0) * scored.seconds
        scores.append(lambda n=number, a=after: kill_evaluation(bench, f"scores-{n}", a))  # type: ignore[misc]
    with ThreadPoolExecutor(workers) as pool:
        done = [list(pool.map(lambda job: job(), group)) for group in (jobs, samples, scores)]
    return {
        "runs": len(done[0]), "identical": sum(done[0]),
        "samples": len(done[1]), "samples_identical": sum(done[1]),
        "evaluations": len(done[2]), "evaluations_same": sum(done[2]),
        **two_processes(bench), "disk_full": disk_full(bench, n_disks),
        "kills": bench.kills, "failures": bench.failures, "seconds": round(time.monotonic() - began),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a few of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--workers", type=int, default=2, help="commands at once")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), arguments.quick, arguments.workers, arguments.seed)
    print(json.dumps(result))
    if result["failures"]:
        sys.exit("something did not come back as it was")


if __name__ == "__main__":
    main()
