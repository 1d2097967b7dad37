"""Tail structure against memory: how near held-out tail pairs come to real, and what is remembered for it.

    python experiments/tradeoff.py COHORT --seeds 1 --out results/tradeoff [--only PATTERN] [--set width=128]

Chooses settings, so it never sees the test part: the training part of the cohort's own split is split again, into
patients to fit on, to stop on, to judge on, and fresh ones that stand for a perfect generator. Every row is drawn at
the size of the fitting part and judged alike. Runs are kept under `--runs` and taken up again. Writes a tidy CSV, a
Markdown table and a figure of the trade-off.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from heads import TAIL, code_nll, frequent_r2, summary  # the script beside this one

from adapcla.commands.options import assignments
from adapcla.console import say
from adapcla.generators import Generator, generator_for
from adapcla.generators.runs import train_run
from adapcla.metrics import Comparison, evaluate
from adapcla.metrics.pairs import cooccurrence
from adapcla.metrics.privacy.pairs_gap import tail_pairs_seen
from adapcla.metrics.table import metric_of
from adapcla.records import Cohort, Strata

_FREE: dict[str, Any] = {"schedule": "none", "credibility": 0.0, "recall": False}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "marginal": ("marginal", {}),
    "independent": ("adapcla", {"schedule": "none"}),
    "independent, annealed": ("adapcla", {}),
    "blockwise": ("tailwise", {**_FREE, "hierarchy": False}),
    "blockwise, annealed": ("tailwise", {**_FREE, "hierarchy": False, "schedule": "base"}),
    "families": ("tailwise", _FREE),
    "families, annealed": ("tailwise", {**_FREE, "schedule": "base"}),
    "families, credibility 20": ("tailwise", {**_FREE, "credibility": 20.0}),
    "families, credibility 100": ("tailwise", {**_FREE, "credibility": 100.0}),
    "families, credibility 100, dropout 0.3": ("tailwise", {**_FREE, "credibility": 100.0, "dropout": 0.3}),
    "families, credibility 20, annealed": ("tailwise", {"recall": False}),
    "families, credibility 20, annealed, recall": ("tailwise", {}),
    "families, credibility 100, annealed": ("tailwise", {"credibility": 100.0, "recall": False}),
}


def tail_nll(generator: Generator, fit: Cohort, judge: Cohort) -> float:
    """Negative log-likelihood of the tail codes of a visit, in nats, given its history and its other codes.

    Tail codes come last in the order of frequency, so that it is what is left of the likelihood when they go.
    """
    network: Any = generator.network_
    tail = torch.from_numpy(Strata.of(fit.visit_counts, fit.vocabulary).tail)[network.code_of_rank]
    never = torch.where(tail, -1e4, 0.0)
    records, total = generator.records(judge), 0.0
    for low in range(0, judge.n_patients, 256):
        whole = network._ranked(records.batch(np.arange(low, min(low + 256, judge.n_patients))))
        kept = ~tail[whole.codes]
        rest = replace(whole, codes=whole.codes[kept], visit_of_entry=whole.visit_of_entry[kept])
        with torch.no_grad():
            states = network.states(whole)
            total += float((network.head.nll(states, whole, None) - network.head.nll(states, rest, never)).sum())
    return total / judge.n_visits


def judged(fit: Cohort, judge: Cohort, made: Cohort) -> dict[str, float | None]:
    """What a drawn cohort scores: tail structure, memory, and the plain sizes."""
    scores = evaluate(fit, judge, made, suites=["tail"], quick=True)
    found: dict[str, float | None] = {key: scores.values()[key] for key in TAIL}
    found["pair_seen_heldout"] = scores.row("pair_seen_heldout", "matched").value
    tail = Strata.of(fit.visit_counts, fit.vocabulary).tail
    # Against all of the drawn patients: the matched view of a tail this thin rests on a hundred pairs.
    found["tail_pair_seen_heldout"], found["heldout_error"], _ = tail_pairs_seen(cooccurrence(made), judge, tail)
    gaps = metric_of("unique_pair_gap").compute(Comparison.of(fit, judge, made, control=judge))
    found["unique_pair_gap"], found["common_pair_gap"] = gaps["all"].value, gaps["common_codes"].value
    real, got = (cohort.visit_counts[tail].sum() / cohort.n_visits for cohort in (fit, made))
    found["tail_codes_ratio"] = float(got / real)
    found["codes_ratio"] = float(made.codes_per_visit.mean() / fit.codes_per_visit.mean())
    found["visits_ratio"] = float(made.visits_per_patient.mean() / fit.visits_per_patient.mean())
    found["prevalence_r2"] = frequent_r2(judge, made)
    return found


def results(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line for each row and fit seed; the references first."""
    import adapcla.metrics.privacy  # noqa: F401  (registers the pair gap)

    fit, stop, judge, fresh = Cohort.open(options.cohort).split(seed=4).train.split(seed=5, control=0.2)
    real = {"row": "fresh patients", "fit_seed": 0, "code_nll": None, "tail_nll": None, **judged(fit, judge, fresh)}
    say(str(real))
    yield real
    changes = assignments(options.set or [])
    for row, (method, settings) in ROWS.items():
        if not fnmatch.fnmatch(row, options.only):
            continue
        for seed in options.seeds:
            mine = {} if method == "marginal" else {**settings, **changes}
            generator = generator_for(method, **{**mine, "seed": seed})
            place = options.runs / options.cohort.name / generator.settings.fingerprint()
            fitted = train_run(generator, fit, stop, place, resume=True)
            made = fitted.sample(fit.n_patients, seed=1)
            likely = {"code_nll": code_nll(fitted, judge), "tail_nll": None}
            if method != "marginal":
                likely["tail_nll"] = tail_nll(fitted, fit, judge)
            line = {"row": row, "fit_seed": seed, **likely, **judged(fit, judge, made)}
            say(str(line))
            yield line


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """The trade-off: memory along, tail structure of held-out patients up, one point a row and fit seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from adapcla.report.style import PALETTE

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    rows = list(dict.fromkeys(line["row"] for line in lines))
    marks = "osD^vP*Xhp<>"
    for number, row in enumerate(rows):
        group = [line for line in lines if line["row"] == row]
        x, y = ([line[key] for line in group] for key in ("unique_pair_gap", "tail_pair_seen_heldout"))
        style = {"color": PALETTE[number % len(PALETTE)], "marker": marks[number % len(marks)]}
        errors = [1.96 * (line["heldout_error"] or 0.0) for line in group]
        axes.errorbar(x, y, yerr=errors, label=row, linestyle="", markersize=6, elinewidth=0.6, **style)
    real = next(line for line in lines if line["row"] == "fresh patients")
    axes.axhline(real["tail_pair_seen_heldout"], linewidth=0.8, color="0.5", linestyle=":")
    axes.axvspan(min(-0.01, axes.get_xlim()[0]), 0.01, color="0.92", zorder=0)
    axes.set_xlabel("unique-pair gap (0: nobody is remembered)")
    axes.set_ylabel("tail pairs that held-out patients hold, 95 %")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Read the options, fit, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cohort", type=Path)
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1])
    parser.add_argument("--only", default="*", help="pattern of row names")
    parser.add_argument("--runs", type=Path, default=Path("runs/tradeoff"))
    parser.add_argument("--out", type=Path, default=Path("results/tradeoff"))
    parser.add_argument("--set", action="append", help="NAME=VALUE of any setting, for all rows")
    options = parser.parse_args()
    lines = list(results(options))
    options.out.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(lines, infer_schema_length=None).write_csv(options.out / "tradeoff.csv")
    head = f"Settings for all rows: {' '.join(options.set or []) or 'the defaults'}.\n\n"
    (options.out / "tradeoff.md").write_text(head + summary(lines, ("row",)), encoding="utf-8")
    draw(lines, options.out / "tradeoff.png")
    print(options.out / "tradeoff.md")


if __name__ == "__main__":
    main()
