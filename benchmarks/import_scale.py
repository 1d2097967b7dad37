"""How much memory and time it takes to import a long CSV of planted patients.

    python benchmarks/import_scale.py --patients 1000000

Writes the planted world as one row per code (patient, visit, date, code), in an order that scatters patients, imports
it with the table source in a fresh process and prints rows, seconds and peak memory as JSON. The promise: 1 M patients
within 2.5 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from adapcla.machine import peak_memory_mb
from adapcla.records import Cohort
from adapcla.sources.planted import simulate

LIMIT_MB = 2_560


def write_long_csv(cohort: Cohort, path: Path, patients_at_once: int = 50_000) -> int:
    """Write one row per code, patients in a scattered order; the number of rows."""
    import polars as pl

    order = np.random.default_rng(0).permutation(cohort.n_patients)
    rows = 0
    with path.open("wb") as stream:
        for start in range(0, cohort.n_patients, patients_at_once):
            chosen = np.sort(order[start : start + patients_at_once])
            part = cohort.subset(chosen)
            visit = part.visit_of_entry
            patient = chosen[part.patient_of_visit]
            number = part.visit_number
            frame = pl.DataFrame(
                {
                    "patient_id": (patient + 10_000_000)[visit],
                    "visit_id": (patient * 100 + number)[visit],
                    "date": (np.datetime64("2010-01-01") + (patient % 3_000 + 30 * number))[visit],
                    "code": np.array(part.vocabulary.tokens)[part.codes],
                }
            )
            frame.write_csv(stream, include_header=start == 0)
            rows += len(frame)
    return rows


def measure(path: Path, out: Path) -> dict[str, float]:
    """Import in this process; counts, CPU and wall seconds, peak memory."""
    from adapcla.sources import read

    wall, cpu = time.perf_counter(), time.process_time()
    cohort = read("table", path)
    cohort.save(out)
    return {
        "patients": cohort.n_patients,
        "visits": cohort.n_visits,
        "entries": cohort.n_entries,
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": peak_memory_mb(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--patients", type=int, default=1_000_000)
    parser.add_argument("--measure", nargs=2, metavar=("CSV", "OUT"), help="import only, in this process")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), Path(arguments.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        csv = Path(folder) / "long.csv"
        rows = write_long_csv(simulate(arguments.patients), csv)
        command = [sys.executable, __file__, "--measure", str(csv), str(Path(folder) / "cohort")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result = {"rows": rows, "csv_mb": csv.stat().st_size >> 20, **json.loads(done.stdout)}
    print(json.dumps(result))
    if result["peak_mb"] > LIMIT_MB:
        sys.exit(f"peak memory {result['peak_mb']} MB is over {LIMIT_MB} MB")


if __name__ == "__main__":
    main()
