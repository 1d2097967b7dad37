"""Memory and time against the number of patients, a wide vocabulary and a very long history, under a memory limit.

python benchmarks/scale.py --quick --json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from adapcla.records import Cohort
from adapcla.records.cohort import starts_of
from adapcla.sources import planted

LIMIT = 4 << 30
SMALL = ("width=64", "layers=2", "heads=4", "threads=1", "validations=1")


def adapcla(where: Path, *arguments: str, limit: int | None = None) -> dict[str, object]:
    """Run a verb; its exit code, peak memory in MB, seconds and last words."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    began = time.monotonic()
    with (where / "stderr").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "adapcla.cli", *arguments],
            cwd=where, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=errors,
            preexec_fn=limited,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        errors.seek(0)
        told = errors.read().strip().splitlines()
    return {
        "code": os.waitstatus_to_exitcode(status), "peak_mb": used.ru_maxrss * 1024 // 1_000_000,
        "seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "told": told[-2:],
    }  # fmt: skip


def with_a_long_history(patients: int, codes: int, visits: int) -> Cohort:
    """A planted cohort with one patient more, who has so many visits of eight codes."""
    cohort = planted.simulate(patients=patients, codes=codes, seed=1)
    draws = np.random.default_rng(0)
    extra = np.sort(np.stack([draws.choice(codes, 8, replace=False) for _ in range(visits)]), axis=1)
    return replace(
        cohort,
        codes=np.concatenate([cohort.codes, extra.ravel().astype(np.int32)]),
        visit_starts=starts_of(np.concatenate([cohort.codes_per_visit, np.full(visits, 8)])),
        patient_starts=starts_of(np.concatenate([cohort.visits_per_patient, [visits]])),
        days=None,
        attributes={},
    )


def wide(root: Path) -> dict[str, object]:
    """50,000 codes and a patient of 2,000 visits under 4 GB: done, or refused with a remedy."""
    with_a_long_history(600, 50_000, 2_000).save(root / "wide")
    common = ["--valid", "wide", "--passes", "1", "--set", "validations=1", "--set", "threads=1"]
    found = {
        "train": adapcla(root, "train", "wide", "--out", "wide-run", *common, limit=LIMIT),
        "train_whole_history": adapcla(
            root, "train", "wide", "--out", "long-run", *common, "--set", "context=2048", limit=LIMIT
        ),
        "sample": adapcla(root, "sample", "wide-run", "--patients", "1000", "--out", "wide-sample", limit=LIMIT),
        "train_halo": adapcla(root, "train", "wide", "--out", "halo", "--method", "halo", *common, limit=LIMIT),
    }
    return {name: value | {"good": value["code"] in (0, 2)} for name, value in found.items()}


def growth(root: Path, sizes: list[int], patients: int) -> dict[str, object]:
    """One pass over many patients, then samples of growing size: peak memory and time of each."""
    planted.simulate(patients=patients, codes=1_000, seed=1).save(root / "many")
    settings = [part for item in SMALL for part in ("--set", item)]
    training = adapcla(root, "train", "many", "--out", "run", "--passes", "1", *settings)
    samples = {
        n: adapcla(root, "sample", "run", "--patients", str(n), "--out", f"sample-{n}") for n in sizes
    }  # fmt: skip
    first, last = samples[sizes[0]], samples[sizes[-1]]
    grown = float(last["peak_mb"]) / float(first["peak_mb"]) - 1  # type: ignore[arg-type]
    return {"patients": patients, "train": training, "samples": samples, "sample_memory_growth": round(grown, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="tens of thousands of patients instead of a million")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    arguments = parser.parse_args()
    sizes, patients = ([20_000, 60_000], 20_000) if arguments.quick else ([100_000, 300_000, 1_000_000], 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        result = {"wide": wide(Path(folder)), "growth": growth(Path(folder), sizes, patients)}
    print(json.dumps(result))
    if not all(part["good"] for part in result["wide"].values()):  # type: ignore[index]
        sys.exit("something was neither done nor refused with a remedy")


if __name__ == "__main__":
    main()
