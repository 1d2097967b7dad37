"""Whole records of the diabetes file, real against synthetic: stays, outcomes, values, drugs, age and sex.

    python benchmarks/whole_record.py [--patients 20000] [--method tailwise] [--width 64] [--passes 4]
                                      [--kept FOLDER] [--quick] [--out FILE]

Reads `diabetic_data.csv.gz` (docs/data.md) with diagnoses, drugs, results and stays, keeps codes of at least eleven
patients, splits by seed 4, fits the method to the train part and draws as many patients. Judges tail and fidelity, by
domain too, and with them numbers and stays. Prints one JSON line; with `--out` writes the tables. `--kept` keeps the
drawn patients and the scores, and takes up what is there.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation import Scores
from adapcla.evaluation.contract import ARROWS, Comparison, Score
from adapcla.evaluation.evaluation import evaluate
from adapcla.evaluation.intervals import ratio_scores
from adapcla.evaluation.measured import by_number, values_of
from adapcla.evaluation.references import some_patients
from adapcla.evaluation.scores import Row
from adapcla.evaluation.suites import SUITES, ceiling_of
from adapcla.evaluation.table import metric_of
from adapcla.files import write_bytes
from adapcla.generation import generator_for
from adapcla.io import read
from adapcla.io.readers.open_data import data_folder
from adapcla.tables import Table, number

DOMAINS = ("dx", "rx", "lab", "stay")
#: Choice groups whose shares are shown, and what they are called.
GROUPS = {"kind": "kind of stay", "end": "discharge disposition", "readmitted": "readmission"}
#: Drugs and results that are shown: those that most training visits hold.
N_DRUGS = 8
#: What is shown by domain.
BY_DOMAIN = (
    *("prevalence_r2", "prevalence_log_r2", "bigram_r2", "sequential_bigram_r2", "codes_per_visit_diff"),
    *("next_visit_gain", "tail_coverage", "pair_seen_heldout", "tail_pair_seen_heldout", "tail_information_share"),
)


def whole_cohort(arguments: argparse.Namespace) -> Cohort:
    """The patients of the file, at most as many as asked for, with codes of at least eleven of them."""
    cohort = read("diabetes130", data_folder() / "diabetes130", domains=DOMAINS)
    cohort = some_patients(cohort, arguments.patients, seed=1)
    return cohort.keep_codes(cohort.patient_counts >= MIN_COUNT)


def drawn(arguments: argparse.Namespace, train: Cohort, valid: Cohort) -> Cohort:
    """As many patients of the method as it was fitted to."""
    kept = None if arguments.kept is None else arguments.kept / "synthetic"
    if kept is not None and kept.is_dir():
        return Cohort.open(kept)
    generator = generator_for(arguments.method, width=arguments.width, passes=arguments.passes).fit(train, valid)
    synthetic = generator.sample(train.n_patients, seed=1)
    if kept is not None:
        synthetic.save(kept)
    return synthetic


def judged(arguments: argparse.Namespace, train: Cohort, test: Cohort, synthetic: Cohort) -> Scores:
    """The scores of the synthetic patients."""
    kept = None if arguments.kept is None else arguments.kept / "scores"
    if kept is not None and kept.is_dir():
        return Scores.open(kept)
    scores = evaluate(train, test, synthetic, ["tail", "fidelity"], method=arguments.method, quick=arguments.quick)
    if kept is not None:
        scores.save(kept)
    return scores


# ---- what records look like ---------------------------------------------------------------------------------
def share_of_visits(comparison: Comparison, cohort: Cohort, mask: NDArray[np.bool_]) -> Score:
    """The share of visits with something, with its interval over patients."""
    owner, n = cohort.patient_of_visit, cohort.n_patients
    tops, bottoms = (np.bincount(owner, weights, minlength=n)[:, None] for weights in (mask, np.ones(len(mask))))
    return ratio_scores(comparison, tops, bottoms, ["no visit"])[0]


def lines_of_codes(comparison: Comparison, cohorts: list[Cohort], codes: list[int], what: str) -> list[list[str]]:
    """The share of visits with each code."""
    vocabulary, out = cohorts[0].vocabulary, []
    for code in codes:
        masks = [np.asarray(one.matrix()[:, code].todense()).ravel() > 0 for one in cohorts]
        name = vocabulary.codes[code].description or vocabulary.codes[code].bare
        cells = [percent(share_of_visits(comparison, *both)) for both in zip(cohorts, masks, strict=True)]
        out.append([what, name, *cells])
    return out


def lines_of_attribute(comparison: Comparison, cohorts: list[Cohort], name: str) -> list[list[str]]:
    """The share of patients in each category that enough test patients are in."""
    out = []
    for word in cohorts[0].attributes[name].categories:
        cells = []
        for one in cohorts:
            attribute = one.attributes[name]
            place = attribute.categories.index(word) if word in attribute.categories else -2
            here = (np.asarray(attribute.values) == place).astype(float)[:, None]
            cells.append((int(here.sum()), ratio_scores(comparison, here, np.ones_like(here), [""])[0]))
        if min(n for n, _ in cells[:2]) >= MIN_COUNT:
            out.append([name.replace("_", " "), word, *(percent(score) for _, score in cells)])
    return out


def looks(comparison: Comparison, train: Cohort, test: Cohort, synthetic: Cohort) -> Table:
    """What records look like: shares of visits and patients, real and synthetic."""
    cohorts = [train, test, synthetic]
    codes, counts = train.vocabulary.codes, train.patient_counts
    enough = (counts >= MIN_COUNT) & (test.patient_counts >= MIN_COUNT)
    rows: list[list[str]] = []
    for group, what in GROUPS.items():
        rows += lines_of_codes(
            comparison, cohorts, [i for i, code in enumerate(codes) if code.group == group and enough[i]], what
        )
    for name in ("sex", "age_band"):
        rows += lines_of_attribute(comparison, cohorts, name)
    for domain in ("drug", "lab"):
        some = [i for i in np.argsort(-train.visit_counts, kind="stable") if codes[i].domain == domain and enough[i]]
        rows += lines_of_codes(comparison, cohorts, [i for i in some if not codes[i].unit][:N_DRUGS], domain)
    return Table(("what", "which", "real, train", "real, test", "synthetic"), rows)


def values_table(train: Cohort, test: Cohort, synthetic: Cohort) -> Table:
    """Quartiles, mean and spread of every number, real and synthetic."""
    parts = [dict(by_number(values_of(one))) for one in (train, test, synthetic)]
    rows = []
    for token, position in train.vocabulary.index.items():
        if train.vocabulary.codes[position].unit and all(position in part for part in parts):
            cells = []
            for part in parts:
                value = part[position].value
                quartiles = " / ".join(f"{q:g}" for q in np.quantile(value, [0.25, 0.5, 0.75]))
                cells.append(f"{value.mean():.2f} ± {value.std():.2f}; {quartiles}")
            rows.append([token, train.vocabulary.codes[position].unit, *cells])
    return Table(("number", "unit", "real, train", "real, test", "synthetic"), rows)


# ---- scores -------------------------------------------------------------------------------------------------
def score_rows(scores: Scores, suite: str) -> Table:
    """The scores of a suite, at equal numbers of patients where they move with it, beside their references."""
    plain = {row.metric: row for row in scores.rows if row.suite == suite and row.stratum == "all"}
    matched = {row.metric: row for row in scores.rows if row.suite == suite and row.stratum == "matched"}
    return Table(_TITLES, [cells_of(matched.get(key, row)) for key, row in plain.items()])


def domain_rows(scores: Scores, domains: tuple[str, ...]) -> Table:
    """Some scores of tail and fidelity on the codes of each domain alone."""
    rows = {(row.metric, row.stratum): row for row in scores.rows}
    out = []
    for key in BY_DOMAIN:
        for stratum in (f"only:{domain}" for domain in domains):
            row = rows.get((key, f"matched:{stratum}")) or rows.get((key, stratum))
            if row is not None:
                out.append(cells_of(row))
    return Table(_TITLES, out)


_TITLES = ("score", "stratum", "synthetic", "n", "real", "train copy", "chance")


def cells_of(row: Row) -> list[str]:
    """A score with its interval, beside what real patients, copies and chance score."""
    real = ceiling_of(metric_of(row.metric)).value
    value = f"– ({row.reason})" if row.value is None else interval(row.value, row.low, row.high)
    beside = [
        interval(*(getattr(row, f"{one}{end}") for end in ("", "_low", "_high")))
        for one in (real, "train_copy", SUITES[row.suite].floor.value)
    ]
    return [f"`{row.metric}` {ARROWS[row.goal]}".strip(), row.stratum, value, f"{row.n:,}", *beside]


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A number with its interval, where it has one."""
    return number(value) + ("" if value is None or low is None else f" [{number(low)}, {number(high)}]")


def percent(score: Score) -> str:
    """A share in percent with its interval."""
    if score.value is None or score.low is None or score.high is None:
        return "–"
    return f"{100 * score.value:.1f} [{100 * score.low:.1f}, {100 * score.high:.1f}]"


def markdown(train: Cohort, test: Cohort, synthetic: Cohort, scores: Scores, arguments: argparse.Namespace) -> str:
    """The whole page."""
    comparison = Comparison.of(train, test, synthetic)
    on_train = synthetic.on(train.vocabulary)
    command = f"python benchmarks/whole_record.py --patients {arguments.patients} --method {arguments.method} " + (
        f"--width {arguments.width} --passes {arguments.passes:g}{' --quick' * arguments.quick} --out FILE"
    )
    sizes = ", ".join(
        f"{one.n_patients:,} patients and {one.n_visits:,} stays {name}"
        for name, one in (("to learn from", train), ("to test", test), ("written", synthetic))
    )
    return "\n".join(
        [
            "# Whole records of the diabetes file, real against synthetic\n",
            f"{sizes}; {train.n_codes:,} codes of at least eleven patients in the domains "
            f"{', '.join(train.vocabulary.domains)}. One fit of a small network, one sample: a look at every part of a "
            "record, not a comparison of methods. Intervals are 95 %, over patients. Made by:\n",
            f"```console\n$ {command}\n```\n",
            "## Shares, in percent\n",
            "Of visits; of patients for sex and age. What fewer than eleven patients have is left out.\n",
            looks(comparison, train, test, on_train).markdown(),
            "## Numbers\n",
            "Mean ± standard deviation; quartiles.\n",
            values_table(train, test, on_train).markdown(),
            "## Scores of numbers and stays\n",
            "Stratum `matched`: at equal numbers of patients. Real are test patients, or training patients where a "
            "classifier learns from them. What each score is: docs/metrics.md.\n",
            score_rows(scores, "numbers").markdown(),
            score_rows(scores, "stays").markdown(),
            "## By domain\n",
            "On the codes of one domain alone.\n",
            domain_rows(scores, train.vocabulary.domains).markdown(),
        ]
    )


def main() -> None:
    """Read, fit, draw, judge and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--patients", type=int, default=20_000)
    parser.add_argument("--method", default="tailwise")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--passes", type=float, default=4)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    train, valid, test = whole_cohort(arguments).split(seed=4)
    synthetic = drawn(arguments, train, valid)
    scores = judged(arguments, train, test, synthetic)
    if arguments.out is not None:
        write_bytes(arguments.out, markdown(train, test, synthetic, scores, arguments).encode())
    spent = resource.getrusage(resource.RUSAGE_SELF)
    summary: dict[str, Any] = {"patients": train.n_patients, "codes": train.n_codes, "scores": len(scores.rows)}
    print(json.dumps({**summary, "processor minutes": round((spent.ru_utime + spent.ru_stime) / 60, 1)}))


if __name__ == "__main__":
    main()
