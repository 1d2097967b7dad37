"""Memory and time against the number of patients, a wide vocabulary and a very long history, under a memory limit.

    python benchmarks/scale.py --json             # 10 k, 100 k and 1 M patients, about 25 minutes of a core
    python benchmarks/scale.py --quick --json     # 20 k and 40 k patients, about three minutes
    python benchmarks/scale.py --only growth --out results/scale  # with a figure

For each number of simulated patients: import of a long CSV, one epoch of training a small network, a sample of as many
patients, the tail and fidelity suites on it, and its export as Parquet, each in a process of its own with 500 MB for
the database; peak memory (ru_maxrss, maps counted) and seconds of the processor. Ends with 1 if a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.data import Cohort
from adapcla.data.ragged import starts_from_sizes
from adapcla.io import simulator

LIMIT = 4 << 30
STEPS = ("import", "train", "sample", "tail+fidelity", "export")
LIMITS_MB = {
    "simulate": 4_000, "import": 1_500, "train": 4_000, "sample": 1_500, "tail+fidelity": 4_000, "export": 1_500,
}  # fmt: skip
MEASURED = ("peak_mb", "cpu_seconds", "seconds")
SMALL = ("width=64", "layers=2", "heads=4", "threads=1", "validations=1")


def adapcla(where: Path, *arguments: str, limit: int | None = None) -> dict[str, object]:
    """Run a verb; its exit code, peak memory in MB, seconds and last lines on stderr."""
    return child(where, [sys.executable, "-m", "adapcla", *arguments], limit)


def child(where: Path, command: list[str], limit: int | None = None) -> dict[str, object]:
    """Run a command. This process must stay small: a child's peak begins at what its parent held when it was born."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    began = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ADAPCLA_MEMORY": "500MB"}
    with (where / "stderr").open("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=where, env=environment, stdout=subprocess.DEVNULL, stderr=errors,
            preexec_fn=limited,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        errors.seek(0)
        last_lines = errors.read().strip().splitlines()
    return {
        "code": os.waitstatus_to_exitcode(status), "peak_mb": used.ru_maxrss * 1024 // 1_000_000,
        "seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "last lines": last_lines[-2:],
    }  # fmt: skip


def with_a_long_history(patients: int, codes: int, visits: int) -> Cohort:
    """A simulated cohort with one patient more, who has so many visits of eight codes."""
    cohort = simulator.simulate(patients=patients, codes=codes, seed=1)
    draws = np.random.default_rng(0)
    extra = np.sort(np.stack([draws.choice(codes, 8, replace=False) for _ in range(visits)]), axis=1)
    return replace(
        cohort,
        codes=np.concatenate([cohort.codes, extra.ravel().astype(np.int32)]),
        visit_starts=starts_from_sizes(np.concatenate([cohort.codes_per_visit, np.full(visits, 8)])),
        patient_starts=starts_from_sizes(np.concatenate([cohort.visits_per_patient, [visits]])),
        days=None,
        attributes={},
    )


def wide(root: Path) -> dict[str, object]:
    """50,000 codes and a patient of 2,000 visits under 4 GB: done, or refused with a remedy."""
    made = "import scale; wide = scale.with_a_long_history(600, 50_000, 2_000)"
    made += "; wide.save('wide/train'); wide.save('wide/valid')"
    child(root, [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); {made}"])
    common = ["--epochs", "1", "--set", "validations=1", "--set", "threads=1"]
    found = {
        "train": adapcla(root, "train", "wide", "--out", "wide-run", *common, limit=LIMIT),
        "train_whole_history": adapcla(
            root, "train", "wide", "--out", "long-run", *common, "--set", "context=2048", limit=LIMIT
        ),
        "sample": adapcla(root, "sample", "wide-run", "--patients", "1000", "--out", "wide-sample", limit=LIMIT),
        "train_halo": adapcla(root, "train", "wide", "--out", "halo", "--method", "halo", *common, limit=LIMIT),
    }
    return {name: value | {"good": value["code"] in (0, 2)} for name, value in found.items()}


def write_csv(cohort: str, path: str) -> None:
    """A cohort folder as one row per code, patients scattered."""
    from import_scale import write_long_csv

    write_long_csv(Cohort.open(cohort), Path(path))


def steps(root: Path, n: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Every step for n patients, by name; the files of a number of patients go before the next."""
    here = root / str(n)
    here.mkdir()
    settings = [part for item in SMALL for part in ("--set", item)]
    simulated = ["--codes", "1000", "--patients"]
    yield "simulate", adapcla(here, "simulate", "--out", "real", *simulated, str(n), "--seed", "1")
    yield "", adapcla(here, "simulate", "--out", "test", *simulated, str(max(n // 10, 1_000)), "--seed", "2")
    yield "", child(here, [sys.executable, __file__, "--write-csv", "real", "long.csv"])
    yield "import", adapcla(here, "import", "table", "long.csv", "--out", "imported")
    (here / "long.csv").unlink(missing_ok=True)
    yield "train", adapcla(here, "train", "real", "--out", "run", "--epochs", "1", *settings)
    yield "sample", adapcla(here, "sample", "run", "--patients", str(n), "--out", "made")
    cohorts = ["--train", "real", "--test", "test", "--synthetic", "made", "--set", "cache=cache"]
    yield "tail+fidelity", adapcla(here, "evaluate", *cohorts, "--suites", "tail,fidelity", "--out", "scores")
    yield "export", adapcla(here, "export", "made", "--to", "parquet", "--out", "exported")
    shutil.rmtree(here)


def growth(root: Path, sizes: list[int]) -> dict[str, object]:
    """Peak memory and time of every step at every number of patients."""
    rows = []
    for n in sizes:
        for name, found in steps(root, n):
            if found["code"] != 0:
                sys.exit(f"{name or 'preparing'} of {n:,} patients ended with {found['code']}: {found['last lines']}")
            if name:
                rows.append({"patients": n, "step": name} | {key: found[key] for key in MEASURED})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return {"rows": rows, "slopes": slopes(rows, sizes), "memory_growth": memory_growth(rows, sizes)}


def _of(rows: list[dict[str, Any]], step: str, key: str) -> list[float]:
    return [float(row[key]) for row in rows if row["step"] == step]


def slopes(rows: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    """How processor time grows between the two largest numbers of patients, as a power: 1 is linear."""
    ratio = math.log(sizes[-1] / sizes[-2])
    return {
        s: round(math.log(_of(rows, s, "cpu_seconds")[-1] / _of(rows, s, "cpu_seconds")[-2]) / ratio, 3) for s in STEPS
    }


def memory_growth(rows: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    """How much more memory the largest number of patients takes than the one before it."""
    return {s: round(_of(rows, s, "peak_mb")[-1] / _of(rows, s, "peak_mb")[-2] - 1, 4) for s in STEPS}


def draw_growth(rows: list[dict[str, Any]], folder: Path) -> None:
    """A figure of time per patient and peak memory."""
    from adapcla.report import style

    folder.mkdir(parents=True, exist_ok=True)
    sizes = sorted({int(row["patients"]) for row in rows})
    with style.panels(1, 2) as (figure, axes):
        for step in STEPS:
            spent = [t * 1000 / n for t, n in zip(_of(rows, step, "cpu_seconds"), sizes, strict=True)]
            axes[0, 0].plot(sizes, spent, marker="o", label=step)
            axes[0, 1].plot(sizes, [mb / 1000 for mb in _of(rows, step, "peak_mb")], marker="o", label=step)
        for panel in axes[0]:
            panel.set_xscale("log")
            panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
            panel.set_xticks([], minor=True)
            panel.set_xlabel("patients")
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_ylabel("processor milliseconds per patient")
        axes[0, 0].set_title("Time, start of the program included")
        axes[0, 1].set_ylabel("peak memory (GB)")
        axes[0, 1].set_ylim(bottom=0)
        axes[0, 1].set_title("Memory")
        axes[0, 1].legend()
        style.save_figure(figure, folder / "scale.svg")


def passed_limits(found: dict[str, Any]) -> list[str]:
    """What took more than it may."""
    over = [
        f"{row['step']} of {row['patients']:,} patients: {row['peak_mb']} MB"
        for row in found["rows"]
        if row["peak_mb"] > LIMITS_MB[row["step"]]
    ]
    growth_of_samples = found["memory_growth"]["sample"]
    if abs(growth_of_samples) > 0.01:
        over.append(f"memory of a sample grew by {growth_of_samples:.1%}")
    return over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tens of thousands of patients instead of a million")
    parser.add_argument("--only", choices=["wide", "growth"], help="one of the two parts")
    parser.add_argument("--sizes", default="", help="numbers of patients, with commas")
    parser.add_argument("--out", type=Path, help="folder for the figure of growth")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--write-csv", nargs=2, metavar=("COHORT", "CSV"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_csv:
        write_csv(*options.write_csv)
        return
    default = "20000,40000" if options.quick else "10000,100000,1000000"
    sizes = [int(size) for size in (options.sizes or default).split(",")]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "growth":
            result["wide"] = wide(Path(folder))
        if options.only != "wide":
            result["growth"] = growth(Path(folder), sizes)
    if options.out and "growth" in result:
        draw_growth(result["growth"]["rows"], options.out)
    print(json.dumps(result))
    if not all(part["good"] for part in result.get("wide", {}).values()):
        sys.exit("something was neither done nor refused with a remedy")
    if "growth" in result and (over := passed_limits(result["growth"])):
        sys.exit("; ".join(over))


if __name__ == "__main__":
    main()
