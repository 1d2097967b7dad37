"""What real patients, copies of training patients and plain chance score on each metric, for any cohorts.

    python benchmarks/references.py [NAME=COHORT ...] [--suites tail,fidelity] [--out FOLDER] [--command TEXT]

Each cohort is split by seed 4 into train, validation and test patients. Half of the test patients are the held-out
reference; the other half, as many training patients drawn with repeats, and as many patients of independent codes
take the place of a synthetic cohort. Without cohorts it takes a small planted world. Prints one JSON line; with `--out`
writes references.md (headline strata) and references.csv (every stratum of the tail suite).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from adapcla.files import write_bytes
from adapcla.metrics import Comparison, Score
from adapcla.metrics.evaluation import metrics_of
from adapcla.metrics.references import halves, marginal, train_copy
from adapcla.metrics.scores import number
from adapcla.records import Cohort
from adapcla.sources.planted import simulate

SUBJECTS = ("real test", "train copy", "marginal")
Found = dict[tuple[str, str, str], Score]


def reference_scores(cohort: Cohort, suites: list[str], seed: int = 1) -> tuple[dict[str, int], Found]:
    """Sizes, and scores by (subject, metric, stratum)."""
    train, _, test = cohort.split(seed=4)
    reference, ceiling = halves(test)
    n = ceiling.n_patients
    base = Comparison.of(train, reference, ceiling, seed=seed)
    cohorts = (base.synthetic, train_copy(base.train, n, seed), marginal(base.train, n, seed))
    found: Found = {}
    for subject, made in zip(SUBJECTS, cohorts, strict=True):
        comparison = base.instead(made, intervals=True)
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
    """One table a cohort, a row a metric."""
    lines: list[str] = []
    arrows = {"up": "↑", "down": "↓", "match": "=", "none": ""}
    for name, (sizes, found) in results.items():
        lines += [f"## {name}", "", "; ".join(f"{n:,} {what}" for what, n in sizes.items()) + ".", ""]
        lines += [f"| metric | {' | '.join(SUBJECTS)} |", "|---|---|---|---|"]
        for metric in metrics_of(suites):
            cells = [cell(found.get((subject, metric.key, "all"))) for subject in SUBJECTS]
            # Attacks that need a model have nothing to say here.
            if set(cells) == {"–"}:
                continue
            lines.append(f"| `{metric.key}` {arrows[metric.goal]} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def table(results: dict[str, tuple[dict[str, int], Found]]) -> str:
    """The scores as CSV: every stratum of the tail suite, the headline of the others, what is missing left out."""
    tail = {metric.key for metric in metrics_of(["tail"])}
    rows = ["cohort,subject,metric,stratum,value,low,high,n"]
    for name, (_, found) in results.items():
        for (subject, metric, stratum), score in found.items():
            if score.value is None or not (metric in tail or stratum == "all"):
                continue
            numbers = ("" if x is None else f"{x:.4g}" for x in (score.value, score.low, score.high))
            rows.append(f"{name},{subject},{metric},{stratum},{','.join(numbers)},{score.n}")
    return "\n".join(rows) + "\n"


PREFACE = """# What real patients, copies and chance score

Rows of real test patients (the ceiling), resampled training patients (memory) and independent codes with training
prevalence (the floor), each at the same number of patients, with 95 % intervals over patients. `_heldout` metrics, and
privacy metrics for their control patients, look at the other half of the test patients. Definitions: docs/metrics.md.
The other strata of the tail suite are in references.csv. Made by:

```console
$ {command}
```

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cohorts", nargs="*", metavar="NAME=COHORT")
    parser.add_argument("--suites", default="tail,fidelity")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--command", default="python benchmarks/references.py …", help="Said in the preface.")
    asked = parser.parse_args()
    begin = time.perf_counter()
    suites = asked.suites.split(",")
    named = dict(text.split("=", 1) for text in asked.cohorts)
    cohorts = {name: Cohort.open(folder) for name, folder in named.items()}
    cohorts = cohorts or {"planted": simulate(patients=2000, codes=400, seed=1)}
    results = {name: reference_scores(cohort, suites) for name, cohort in cohorts.items()}
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        write_bytes(
            asked.out / "references.md", (PREFACE.format(command=asked.command) + markdown(results, suites)).encode()
        )
        write_bytes(asked.out / "references.csv", table(results).encode())
    found = {
        name: {s: found[s, "tail_pair_seen", "all"].value for s in SUBJECTS} for name, (_, found) in results.items()
    }
    print(json.dumps({"tail_pair_seen": found, "seconds": round(time.perf_counter() - begin, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
