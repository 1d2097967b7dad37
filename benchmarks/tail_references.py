"""What can be known of the tail: references in the planted world, and what tail information counts and how it grows.

    python benchmarks/tail_references.py --out results/tail_references.md

The first table stands in docs/planted.md: patients of the default planted world, of its law, of its families, of
another world, of chance, and copies, against training patients at equal numbers. The second is tail information of real
training patients on Diabetes 130, for several numbers of them, a case, a pair and a code: what the same patients know
reads otherwise by how it is counted, and falls with the number of patients it is read from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from adapcla.data import Cohort
from adapcla.data.prevalence import INFORMATION_BANDS
from adapcla.data.split import SPLIT_SEED
from adapcla.evaluation import Comparison
from adapcla.evaluation.references import marginal, some_patients, train_copy
from adapcla.evaluation.table import metric_of
from adapcla.evaluation.tail_information import information
from adapcla.io import simulator as planted
from adapcla.pipeline.spec import DataSpec
from adapcla.pipeline.stages import read_data
from adapcla.tables import Table

METRICS = ("tail_pair_seen", "tail_topk_jac", "tail_ctx_jsd", "tail_information_share")
SIZES = (0, 20_000, 10_000, 5_000)


def planted_table(patients: int, codes: int) -> str:
    """The scores of what may stand in the place of a synthetic cohort, as many as there are test patients."""
    train, _, test = planted.simulate(patients=patients, codes=codes, seed=1).split(seed=SPLIT_SEED)
    n = test.n_patients
    subjects = {
        "real test (for information: training patients)": test,
        "`planted.ideal`: the law itself, fresh patients": planted.ideal(train, n, 1),
        "`planted.family_only`: knows families, not codes": planted.family_only(train, n, 1),
        "another world (`law_seed=8`)": planted.simulate(patients=n, codes=codes, seed=1, law_seed=8),
        "chance (`marginal`)": marginal(train, n, 1),
        "copies of training patients": train_copy(train, n, 1),
    }
    lines = []
    for name, cohort in subjects.items():
        judged = Comparison.of(train, test, cohort, seed=1)
        of_real = judged.instead(some_patients(judged.train, n, 1), intervals=False)
        values = []
        for metric in METRICS:
            # Test patients judge information: their own place is taken by training patients.
            compared = of_real if cohort is test and metric.startswith("tail_information") else judged
            value = metric_of(metric).compute(compared)["all"].value
            values.append("–" if value is None else f"{value:.3f}")
        lines.append([name, *values])
    heading = ["patients", "TailPairSeen", "TailTopKJac", "TailCtxJSD", "tail information, share of real"]
    return f"{n:,} patients each.\n\n" + Table(heading, lines).markdown()


def information_table(train: Cohort, test: Cohort) -> str:
    """What training patients gain on the rare codes of test patients, by how many they are and what is counted."""
    counts, lines = train.visit_counts, []
    for size in SIZES:
        real = some_patients(train, size or train.n_patients, 1)
        cases, gains = information(real, test, counts)
        n_pairs = np.bincount(cases.case, minlength=len(gains))
        of_case = counts[cases.rare]
        for band, (low, high) in INFORMATION_BANDS.items():
            inside = (of_case >= low) & (of_case <= high)
            by_code = [gains[inside & (cases.rare == code)].mean() for code in np.unique(cases.rare[inside])]
            total, pairs = gains[inside].sum(), int(n_pairs[inside].sum())
            numbers = [total / inside.sum(), total / pairs, float(np.mean(by_code))]
            shown = [f"{value:.3f}" for value in numbers]
            lines.append([f"{real.n_patients:,}", band, f"{int(inside.sum()):,}", f"{pairs:,}", *shown])
    heading = ["training patients", "visits of the code", "cases", "pairs", "nats a case", "a pair", "mean over codes"]
    return Table(heading, lines).markdown()


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=12_000, help="Of the planted world.")
    parser.add_argument("--codes", type=int, default=3_000, help="Of the planted world.")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    options = {"patient": "patient_id", "visit": "visit_id", "codes": "dx"}
    real = read_data(DataSpec(source="table", path="diabetes130/visits.csv.gz", options=options))
    train, _, test = real.split(seed=SPLIT_SEED)
    lines = ["# What can be known of the tail", "", "Made by `python benchmarks/tail_references.py --out FILE`.", ""]
    lines += [f"## The planted world of {asked.patients:,} patients and {asked.codes:,} codes", ""]
    lines += [planted_table(asked.patients, asked.codes)]
    lines += ["## Tail information of real patients, Diabetes 130", ""]
    lines += [f"Judged by {test.n_patients:,} test patients; bands by visits in all training patients.", ""]
    lines += [information_table(train, test)]
    asked.out.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
