"""Does a trained generator know the planted law? Its next-visit probabilities against the true ones, by stratum.

    python experiments/law.py --out results/law [--codes 3000] [--patients 12000] [--set NAME=VALUE]

Spearman's correlation over all (history, code) cells of held-out patients, and the mean over histories of the
correlation inside one history and inside one code: the first can be had from prevalences alone, the last cannot. The
law of another world on the same codes is the negative control, and the row `prevalence` says what the training
prevalences alone give.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from adapcla.commands.options import assignments
from adapcla.console import say
from adapcla.generators import generator_for
from adapcla.generators.runs import train_run
from adapcla.records import Cohort
from adapcla.sources import planted

WRONG = 8
STRATA = ("head", "mid", "tail")


def mean_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The mean Spearman correlation of the rows of two matrices; rows without variation are left out.

    >>> mean_correlation(np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[2.0, 4, 9], [3, 2, 1]]))
    0.0
    """
    ranks = [rankdata(matrix, axis=1) for matrix in (first, second)]
    left, right = (r - r.mean(axis=1, keepdims=True) for r in ranks)
    size = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    varied = size > 0
    return float(((left * right).sum(1)[varied] / size[varied]).mean())


def agreements(learned: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, float]:
    """How well two (histories, codes) matrices of probabilities agree, looked at in three ways."""
    return {
        "all cells": float(spearmanr(learned.ravel(), truth.ravel()).statistic),
        "inside a history": mean_correlation(learned, truth),
        "inside a code": mean_correlation(learned.T, truth.T),
    }


def lines(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line for each method, stratum and world."""
    cohort = planted.simulate(patients=options.patients, codes=options.codes, seed=1)
    train, valid, test = cohort.split(seed=4)
    histories: Cohort = test.subset(np.arange(min(options.histories, test.n_patients)))
    truths = {}
    for world, law_seed in (("own", 7), ("another", WRONG)):
        law = planted.law(codes=options.codes, law_seed=law_seed)
        truths[world] = np.asarray(law.next_visit(law.after_visits(histories)))[histories.last_visits]
    strata = train.strata()
    sets = {name: getattr(strata, name) for name in STRATA} | {"head and mid": strata.head | strata.mid}
    for method in options.methods:
        if method == "prevalence":
            learned = np.tile(train.prevalence().share, (histories.n_patients, 1))
        else:
            generator = generator_for(method, **{**assignments(options.set or []), "seed": options.seed})
            place = options.runs / f"{train.fingerprint[:12]}-{generator.settings.fingerprint()}"
            fitted = train_run(generator, train, valid, place, resume=True)
            learned = np.asarray(fitted.continue_(histories, draws=1).probabilities, dtype=np.float64)
        for stratum, codes in sets.items():
            for world, truth in truths.items():
                found = agreements(learned[:, codes], truth[:, codes])
                yield {"method": method, "stratum": stratum, "codes": int(codes.sum()), "world": world, **found}
        say(f"{method}: done")


def main() -> None:
    """Read the options, fit, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=12_000)
    parser.add_argument("--codes", type=int, default=3_000)
    parser.add_argument("--histories", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--methods", type=lambda t: t.split(","), default=["prevalence", "adapcla", "adapcla-no-scaffold"]
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/law"))
    parser.add_argument("--out", type=Path, default=Path("results/law"))
    parser.add_argument("--set", action="append", help="NAME=VALUE of any setting, for all methods")
    options = parser.parse_args()
    table = pl.DataFrame(list(lines(options)))
    options.out.mkdir(parents=True, exist_ok=True)
    table.write_csv(options.out / "law.csv")
    heads = table.columns
    rows = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in row] for row in table.iter_rows()]
    body = "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows])
    told = f"{options.patients:,} patients, {options.codes:,} codes, {options.histories} held-out histories.\n\n"
    (options.out / "law.md").write_text(told + body + "\n", encoding="utf-8")
    print(options.out / "law.md")


if __name__ == "__main__":
    main()
