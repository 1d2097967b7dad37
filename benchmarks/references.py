"""What real patients, copies of training patients and plain chance score on each metric, for any cohorts.

    python benchmarks/references.py [NAME=COHORT ... | --open] [--suites tail,fidelity] [--out FOLDER]

Each cohort is split by seed 4 into train, validation and test patients. Half of the test patients are the held-out
reference; the other half, as many training patients drawn with repeats, and as many patients of independent codes
take the place of a synthetic cohort. `--open` takes the open data sets (docs/data.md) and the default planted world;
without cohorts it takes a small planted world. Prints one JSON line; with `--out` writes references.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from adapcla.data import Cohort
from adapcla.evaluation import Comparison, Score
from adapcla.evaluation.metric import ARROWS
from adapcla.evaluation.references import Reference, halves
from adapcla.evaluation.metric import metrics_of
from adapcla.files import write_bytes
from adapcla.io import read
from adapcla.io.readers.open_data import CHECKSUMS, data_folder
from adapcla.io.simulator import simulate
from adapcla.tables import Table, number

#: The rows of the table; at equal numbers, real training patients differ from copies in nothing that is shown.
SUBJECTS = (Reference.REAL_TEST, Reference.TRAIN_COPY, Reference.MARGINAL)
Found = dict[tuple[Reference, str, str], Score]


def reference_scores(cohort: Cohort, suites: list[str], seed: int = 1) -> tuple[dict[str, int], Found]:
    """Sizes, and scores by (subject, metric, stratum)."""
    train, _, test = cohort.split(seed=4)
    reference, ceiling = halves(test)
    n = ceiling.n_patients
    base = Comparison.of(train, reference, ceiling, seed=seed)
    found: Found = {}
    for subject in SUBJECTS:
        comparison = base.with_synthetic(subject.cohort(base.whole.train, base.whole.synthetic, n, seed), intervals=True)
        for metric in metrics_of(suites):
            for stratum, score in metric.compute(comparison).items():
                found[subject, metric.key, stratum] = score
    sizes = {"codes": len(train.vocabulary), "training patients": train.n_patients, "training visits": train.n_visits}
    return {**sizes, "patients of each row": n, "reference patients": reference.n_patients}, found


def cell(score: Score | None) -> str:
    """A score with its interval."""
    if score is None or score.value is None:
        return "–"
    return number(score.value) + ("" if score.low is None else f" [{number(score.low)}, {number(score.high)}]")


def markdown(results: dict[str, tuple[dict[str, int], Found]], suites: list[str]) -> str:
    """One table per cohort, a row a metric."""
    lines: list[str] = []
    for name, (sizes, found) in results.items():
        lines += [f"## {name}", "", "; ".join(f"{n:,} {what}" for what, n in sizes.items()) + ".", ""]
        rows = []
        for metric in metrics_of(suites):
            cells = [cell(found.get((subject, metric.key, "all"))) for subject in SUBJECTS]
            # Attacks that need a model have nothing to say here.
            if set(cells) == {"–"}:
                continue
            rows.append([f"`{metric.key}` {ARROWS[metric.goal]}", *cells])
        lines.append(Table(["metric", *(reference.label for reference in SUBJECTS)], rows).markdown())
    return "\n".join(lines)


PREFACE = """# What real patients, copies and chance score

Rows of real test patients (the ceiling), resampled training patients (memory) and independent codes with training
prevalence (the floor), each at the same number of patients, with 95 % intervals over patients. `_heldout` metrics, and
privacy metrics for their control patients, look at the other half of the test patients. Definitions: docs/metrics.md.
Made by:

```console
$ python benchmarks/references.py --open --suites tail,fidelity,privacy --out results
```

"""


def opened(text: str) -> tuple[str, Cohort]:
    """The cohort of `NAME=FOLDER`, by its name."""
    name, folder = text.split("=", 1)
    return name, Cohort.open(folder)


def open_cohorts() -> dict[str, Cohort]:
    """The open sets that are one table of visits, and the default planted world."""
    tables = {
        name: data_folder() / name / "visits.csv.gz" for name, files in CHECKSUMS.items() if "visits.csv" in files
    }
    return {**{name: read("table", path) for name, path in tables.items()}, "planted": simulate()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cohorts", nargs="*", metavar="NAME=COHORT")
    parser.add_argument("--open", action="store_true", help="open data sets and the default planted world")
    parser.add_argument("--suites", default="tail,fidelity")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    begin = time.perf_counter()
    suites = asked.suites.split(",")
    cohorts = open_cohorts() if asked.open else dict(opened(text) for text in asked.cohorts)
    cohorts = cohorts or {"planted": simulate(patients=2000, codes=400, seed=1)}
    results = {name: reference_scores(cohort, suites) for name, cohort in cohorts.items()}
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        write_bytes(asked.out / "references.md", (PREFACE + markdown(results, suites)).encode())
    found = {
        name: {s: found[s, "tail_pair_seen", "all"].value for s in SUBJECTS} for name, (_, found) in results.items()
    }
    print(json.dumps({"tail_pair_seen": found, "seconds": round(time.perf_counter() - begin, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
