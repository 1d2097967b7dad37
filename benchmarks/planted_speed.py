"""How fast planted patients are drawn, and the memory that a large cohort takes.

Run: python benchmarks/planted_speed.py [PATIENTS …]   (12,000 and 100,000 unless told)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from adapcla.io import simulator as planted
from adapcla.machine import peak_memory_mb


def measured(patients: int) -> dict[str, float]:
    """Seconds and speed of drawing and of writing, and the highest memory so far."""
    start = time.perf_counter()
    cohort = planted.simulate(patients)
    drawn = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        cohort.save(Path(folder) / "world")
        written = time.perf_counter() - start
    return {
        "patients": patients,
        "visits": cohort.n_visits,
        "seconds_drawing": round(drawn, 2),
        "patients_a_second": round(patients / drawn),
        "seconds_writing": round(written, 2),
        "peak_megabytes": peak_memory_mb(),
    }


def main() -> None:
    start = time.perf_counter()
    planted.law()
    print(json.dumps({"seconds_for_the_law": round(time.perf_counter() - start, 2)}))
    for patients in [int(number) for number in sys.argv[1:]] or [12_000, 100_000]:
        print(json.dumps(measured(patients)), flush=True)


if __name__ == "__main__":
    main()
