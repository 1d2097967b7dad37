"""Heads and families side by side: what dependence inside a visit buys, in likelihood, tail structure and memory.

    python experiments/heads.py chile=COHORT diabetes130=COHORT --seeds 1,2,3 --out results/heads

Each cohort is split once (seed 4); every row is fitted once for each fit seed with the same settings and judged on the
validation part (`--judge valid`, for choosing) or the test part (`--judge test`, for reporting). Runs are kept under
`--runs` and taken up again. Writes a tidy CSV and a Markdown table of means with the spread over fit seeds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adapcla.commands.options import assignments
from adapcla.console import say
from adapcla.generators import Generator, generator_for
from adapcla.generators.runs import train_run
from adapcla.metrics import Comparison, evaluate
from adapcla.metrics.table import metric_of
from adapcla.records import Cohort
from adapcla.tables import Table

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "adapcla (independent, annealed)": ("adapcla", {}),
    "independent": ("adapcla", {"schedule": "none"}),
    "independent + families": ("adapcla", {"schedule": "none", "hierarchy": True}),
    "blockwise": ("adapcla", {"schedule": "none", "head": "blockwise"}),
    "blockwise + families": ("adapcla", {"schedule": "none", "head": "blockwise", "hierarchy": True}),
    "tailwise": ("tailwise", {}),
}
TAIL = ("pair_seen", "tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac")


def code_nll(generator: Generator, cohort: Cohort) -> float:
    """Negative log-likelihood of the codes of a visit, in nats."""
    records, total = generator.records(cohort), 0.0
    bias = generator.scaffold_bias() if generator.settings.bias_at_inference else None
    for low in range(0, cohort.n_patients, 256):
        batch = records.batch(np.arange(low, min(low + 256, cohort.n_patients)))
        total += float(generator.network_.likelihood(batch, bias).codes.sum())
    return total / cohort.n_visits


def frequent_r2(reference: Cohort, made: Cohort, least: int = 20) -> float:
    """R² of prevalences over codes with at least `least` occurrences in the reference."""
    often = reference.visit_counts >= least
    real, got = (cohort.visit_counts[often] / cohort.n_visits for cohort in (reference, made))
    return float(1 - ((real - got) ** 2).sum() / ((real - real.mean()) ** 2).sum())


def judged(generator: Generator, train: Cohort, valid: Cohort, judge: Cohort) -> dict[str, float | None]:
    """The columns of one fitted generator; a sample as large as the training part."""
    made = generator.sample(train.n_patients, seed=1)
    scores = evaluate(train, judge, made, suites=["tail"], quick=True)
    found: dict[str, float | None] = {"code_nll": code_nll(generator, valid)}
    found |= {key: scores.values()[key] for key in TAIL}
    for key in TAIL[:2]:
        found[f"{key}_heldout"] = scores.row(f"{key}_heldout", "matched").value
    comparison = Comparison.of(train, judge, made, control=judge)
    found["unique_pair_gap"] = metric_of("unique_pair_gap").compute(comparison)["all"].value
    found["visits_ratio"] = float(made.visits_per_patient.mean() / train.visits_per_patient.mean())
    found["codes_ratio"] = float(made.codes_per_visit.mean() / train.codes_per_visit.mean())
    found["prevalence_r2"] = frequent_r2(judge, made)
    return found


def results(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line for each cohort, row and fit seed."""
    import adapcla.metrics.privacy  # noqa: F401  (registers the pair gap)

    changes = assignments(options.set or [])
    for name, folder in (item.split("=", 1) for item in options.cohorts):
        train, valid, test = Cohort.open(folder).split(seed=4)
        judge = test if options.judge == "test" else valid
        for row, (method, settings) in ROWS.items():
            for seed in options.seeds:
                generator = generator_for(method, **{**settings, **changes, "seed": seed})
                place = options.runs / name / f"{generator.settings.fingerprint()}"
                fitted = train_run(generator, train, valid, place, resume=True)
                line = {"cohort": name, "row": row, "fit_seed": seed, **judged(fitted, train, valid, judge)}
                say(str(line))
                yield line


def summary(lines: list[dict[str, Any]], names: tuple[str, ...] = ("cohort", "row")) -> str:
    """A Markdown table of means and, where there are several fit seeds, half their range; `names` say what a row is."""
    columns = [key for key in lines[-1] if key not in (*names, "fit_seed")]
    rows = []
    for named in dict.fromkeys(tuple(line[name] for name in names) for line in lines):
        group = [line for line in lines if tuple(line[name] for name in names) == named]
        cells = []
        for column in columns:
            values = [line[column] for line in group if line[column] is not None]
            spread = f" ± {(max(values) - min(values)) / 2:.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}" if values else "–")
        rows.append([*named, str(len(group)), *cells])
    return Table([*names, "fit seeds", *columns], rows).markdown()


def main() -> None:
    """Read the options, fit, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cohorts", nargs="+", help="NAME=FOLDER")
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--judge", choices=("valid", "test"), default="test")
    parser.add_argument("--runs", type=Path, default=Path("runs/heads"))
    parser.add_argument("--out", type=Path, default=Path("results/heads"))
    parser.add_argument("--set", action="append", help="NAME=VALUE of any setting, for all rows")
    options = parser.parse_args()
    lines = list(results(options))
    options.out.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(lines).write_csv(options.out / "heads.csv")
    head = (
        f"Judged on the {options.judge} part; settings for all rows: {' '.join(options.set or []) or 'the defaults'}.\n"
    )
    (options.out / "heads.md").write_text(head + "\n" + summary(lines), encoding="utf-8")
    print(options.out / "heads.md")


if __name__ == "__main__":
    main()
