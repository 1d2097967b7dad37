"""Seconds and peak memory of the tail and fidelity suites at MIMIC-IV shape, and against plain Python loops.

    python benchmarks/evaluate_scale.py [--train 161000] [--test 44000] [--synthetic 50000] [--codes 9143]
    python benchmarks/evaluate_scale.py --growth 100000,1000000 --test 100000 --codes 1000

The patients are simulated. Two times are taken: the two suites on the synthetic cohort with all strata and
intervals, and the whole of `evaluate` with its references and matched views beside. The loop walks over visits and
pairs with dictionaries and sets, and computes the four tail metrics and the n-gram correlations once, without strata,
intervals or held-out versions; the same six metrics are timed against it on the same cohorts. Seconds are of the
processor (one thread), with the wall clock of the suites beside them. Prints one JSON line; ends with 1 if the suites
take more than 60 seconds or 3 GB, or the six metrics more than a twentieth of the loop's time.

`--growth` evaluates as many training and synthetic patients as it names, from folders and in a process each, and ends
with 1 if the memory of the last is more than 1.5 times that of the first: anonymous memory (Linux), since mapped files
can be given back at any time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np

from adapcla.data import Cohort
from adapcla.evaluation import Comparison, evaluate
from adapcla.evaluation.metric import metrics_of
from adapcla.io.simulator import simulate
from adapcla.machine import peak_memory_mb

SECONDS, GIGABYTES, FASTER, GROWTH = 60.0, 3.0, 20.0, 1.5
#: What the loop computes, and all of what is computed against it when the two are compared.
SAME_WORK = ("pair_seen", "tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac")


class Loop:
    """The same metrics, visit by visit."""

    def __init__(self, cohort: Cohort) -> None:
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.steps: Counter[tuple[int, int]] = Counter()
        self.neighbours: dict[int, Counter[int]] = {}
        self.weight: Counter[int] = Counter()
        self.n_visits = self.n_steps = 0
        codes, visits, patients = (a.tolist() for a in (cohort.codes, cohort.visit_starts, cohort.patient_starts))
        for p in range(cohort.n_patients):
            before: list[int] = []
            for v in range(patients[p], patients[p + 1]):
                visit = codes[visits[v] : visits[v + 1]]
                self.add(visit, before)
                before = visit

    def add(self, visit: list[int], before: list[int]) -> None:
        """Count one visit and the step from the visit before it."""
        self.n_visits += 1
        for a, b in combinations(visit, 2):
            self.pairs[a, b] += 1
            self.neighbours.setdefault(a, Counter())[b] += 1
            self.neighbours.setdefault(b, Counter())[a] += 1
        if len(visit) > 1:
            self.weight.update(visit)
        if before:
            self.n_steps += 1
            self.steps.update(product(before, visit))


def divergence(one: Counter[int], two: Counter[int]) -> float:
    n, m = one.total(), two.total()
    total = 0.0
    for code in one.keys() | two.keys():
        p, q = one[code] / n, two[code] / m
        middle = (p + q) / 2
        total += (p * np.log(p / middle) if p else 0.0) / 2 + (q * np.log(q / middle) if q else 0.0) / 2
    return float(total)


def top(neighbours: Counter[int]) -> set[int]:
    return {code for code, _ in sorted(neighbours.items(), key=lambda item: (-item[1], item[0]))[:20]}


def by_loop(train: Cohort, synthetic: Cohort) -> dict[str, float]:
    tail = set(np.flatnonzero(train.strata().tail).tolist())
    real, made = Loop(train), Loop(synthetic)
    seen = sum(times for pair, times in made.pairs.items() if pair in real.pairs)
    rare = {pair: times for pair, times in made.pairs.items() if pair[0] in tail or pair[1] in tail}
    known = [code for code in tail if real.weight[code]]
    both = [code for code in known if code in made.neighbours]
    apart = sum(real.weight[code] * divergence(real.neighbours[code], made.neighbours[code]) for code in both)
    shared = 0.0
    for code in both:
        one, two = top(real.neighbours[code]), top(made.neighbours[code])
        shared += real.weight[code] * len(one & two) / len(one | two)
    return {
        "pair_seen": seen / made.pairs.total(),
        "tail_pair_seen": sum(times for pair, times in rare.items() if pair in real.pairs) / sum(rare.values()),
        "tail_ctx_jsd": apart / sum(real.weight[code] for code in both),
        "tail_topk_jac": shared / sum(real.weight[code] for code in known),
    }


def timed_suites(
    train: Cohort, test: Cohort, synthetic: Cohort, intervals: bool, keys: tuple[str, ...] | None
) -> tuple[float, dict]:
    begin = time.process_time()
    comparison = Comparison.of(train, test, synthetic, intervals=intervals)
    chosen = [metric for metric in metrics_of(["tail", "fidelity"]) if keys is None or metric.key in keys]
    values = {metric.key: metric.compute(comparison)["all"].value for metric in chosen}
    return time.process_time() - begin, values


def growth(sizes: list[int], n_test: int, codes: int) -> list[dict[str, float]]:
    """Memory and processor seconds of both suites on so many training and synthetic patients."""
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for name, patients, seed in (("train", n, 1), ("test", n_test, 2), ("synthetic", n, 3)):
                simulate(patients=patients, codes=codes, seed=seed).save(Path(folder, name))
            done = subprocess.run([sys.executable, __file__, "--folder", folder], stdout=subprocess.PIPE, check=True)
        rows.append({"patients": n, **json.loads(done.stdout)})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def peak_of(folder: Path) -> dict[str, float]:
    """The largest anonymous memory, beyond that before it, and the seconds of an evaluation."""
    peak, done = anonymous_mb(), threading.Event()
    before = peak

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, anonymous_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = time.process_time()
    train, test, synthetic = (Cohort.open(folder / name) for name in ("train", "test", "synthetic"))
    evaluate(train, test, synthetic, suites=["tail", "fidelity"])
    done.set()
    watcher.join()
    return {"peak_mb": round(peak - before), "cpu_seconds": round(time.process_time() - begin, 1)}


def anonymous_mb() -> float:
    """Memory of this process that no file stands behind."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--growth", default="", help="Numbers of patients, with commas.")
    parser.add_argument("--folder", type=Path, help="Only evaluate the cohorts in a folder, and say the memory.")
    for name, default in (("train", 161_000), ("test", 44_000), ("synthetic", 50_000), ("codes", 9_143)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-loop", action="store_true", help="Leave out the loop, which takes minutes.")
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(peak_of(options.folder)))
        return 0
    if options.growth:
        rows = growth([int(n) for n in options.growth.split(",")], options.test, options.codes)
        print(json.dumps(rows))
        return int(rows[-1]["peak_mb"] > GROWTH * rows[0]["peak_mb"])
    sizes = enumerate((options.train, options.test, options.synthetic), 1)
    train, test, synthetic = (simulate(patients=n, codes=options.codes, seed=seed) for seed, n in sizes)
    metrics_of(["tail", "fidelity"])
    before = peak_memory_mb() / 1000
    wall = time.perf_counter()
    suites, _ = timed_suites(train, test, synthetic, True, None)
    wall = time.perf_counter() - wall
    begin = time.process_time()
    evaluate(train, test, synthetic, suites=["tail", "fidelity"])
    whole = time.process_time() - begin
    peak = peak_memory_mb() / 1000
    measured = {
        "patients": [train.n_patients, test.n_patients, synthetic.n_patients],
        "codes": options.codes,
        "training_visits": train.n_visits,
        "codes_per_visit": round(train.n_entries / train.n_visits, 1),
        "suites_seconds": round(suites, 1),
        "suites_wall_seconds": round(wall, 1),
        "evaluate_seconds": round(whole, 1),
        "peak_gigabytes": round(peak, 2),
        "peak_gigabytes_before": round(before, 2),
    }
    slow = False
    if not options.no_loop:
        same, values = timed_suites(train, test, synthetic, False, SAME_WORK)
        begin = time.process_time()
        plain = by_loop(train, synthetic)
        loop = time.process_time() - begin
        gap = max(abs(plain[key] - values[key]) for key in SAME_WORK)
        measured |= {
            "same_work_seconds": round(same, 2),
            "loop_seconds": round(loop, 1),
            "faster": round(loop / same, 1),
            "largest_difference_from_loop": float(f"{gap:.2g}"),
        }
        slow = loop / same < FASTER or gap > 1e-9
    print(json.dumps(measured))
    return int(suites > SECONDS or peak > GIGABYTES or slow)


if __name__ == "__main__":
    sys.exit(main())
