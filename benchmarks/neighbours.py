"""Seconds and peak memory of the nearest neighbours of 10,000 among 10,000 patients (7,000 codes, 20–30 a patient).

    python benchmarks/neighbours.py [--patients 10000] [--codes 7000] [--a-patient 25]

Prints one JSON line; ends with 1 if 60 seconds or 1 GB are exceeded at the default size.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from scipy import sparse

from adapcla.evaluation.privacy.distances import nearest
from adapcla.machine import peak_memory_mb
from adapcla.seeds import random_stream

SECONDS, MEGABYTES = 60.0, 1000.0


def patients(n: int, codes: int, a_patient: float, seed: int) -> sparse.csr_matrix:
    """Patients of independent codes with long-tailed prevalence, the most common one held by at most half."""
    share = 1.0 / np.arange(1, codes + 1) ** 0.9
    share = np.minimum(share * a_patient / share.sum(), 0.5)
    rng = random_stream(seed, "benchmark/neighbours")
    holders = rng.binomial(n, share)
    column = np.repeat(np.arange(codes), holders)
    out = sparse.csr_matrix((np.ones(len(column), np.float32), (rng.integers(0, n, len(column)), column)), (n, codes))
    out.data[:] = 1
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--patients", type=int, default=10_000)
    parser.add_argument("--codes", type=int, default=7_000)
    parser.add_argument("--a-patient", type=float, default=28.0)
    asked = parser.parse_args()
    one, other = (patients(asked.patients, asked.codes, asked.a_patient, seed) for seed in (1, 2))
    begin = time.perf_counter()
    found = nearest(one, other)
    seconds = time.perf_counter() - begin
    megabytes = peak_memory_mb()
    measured = {
        "patients": asked.patients,
        "codes": asked.codes,
        "codes_a_patient": round(one.nnz / asked.patients, 1),
        "median_distance": float(np.median(found.distance)),
        "seconds": round(seconds, 1),
        "peak_megabytes": round(megabytes),
    }
    print(json.dumps(measured))
    return int(seconds > SECONDS or megabytes > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
