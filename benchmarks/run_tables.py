"""Tables over finished experiments that no single page holds, from the scores of their fits.

    python benchmarks/run_tables.py parts runs/release runs/release-planted --out results/release/parts.md
    python benchmarks/run_tables.py tail runs/release runs/synpuf --out results/tail.md

`parts` takes the paper's headline apart: the scores of each row of `release`, and what each part of the recipe adds, by
fits paired by seed (Student's interval, with the luck of test patients where they judge, not corrected for looking at
several numbers). `tail` is tail swap and tail information of every row beside its references.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from adapcla.evaluation.bootstrap import mean_half
from adapcla.study.results import Measured, Study
from adapcla.study.verdicts import paired_gains, shared_error, side
from adapcla.tables import Table, number


class Column(NamedTuple):
    """A score as a column: heading, metric and stratum."""

    heading: str
    metric: str
    stratum: str = "all"


PARTS = (
    Column("TailPairSeen, rarest fifth", "tail_pair_seen", "rare20"),
    Column("… rarest third", "tail_pair_seen"),
    Column("… 6–20 visits", "tail_pair_seen", "6-20"),
    Column("… 6–20, held out", "tail_pair_seen_heldout", "6-20"),
    Column("share of tail codes, ‰", "tail_mass"),
    Column("tail swap", "tail_swap"),
    Column("… on training patients", "tail_swap_training"),
    Column("tail information, share of real", "tail_information_share"),
    Column("likelihood attack, rare", "membership_likelihood_auc", "rare"),
)
#: What each part of the recipe is compared with.
STEPS = (
    ("halo-long", "halo"),
    ("release-stages", "halo"),
    ("release-weight", "release-stages"),
    ("adapcla-release", "release-weight"),
    ("adapcla-release", "halo"),
    ("adapcla-halo", "halo"),
    ("adapcla", "adapcla-no-scaffold"),
)
TAIL = (
    Column("tail swap", "tail_swap"),
    Column("… 1–5 visits", "tail_swap", "1-5"),
    Column("… never met", "tail_swap", "1-5:never met"),
    Column("… on training patients, 1–5", "tail_swap_training", "1-5"),
    Column("tail information, nats a case", "tail_information"),
    Column("… 11–30 visits", "tail_information", "11-30"),
    Column("… 31–100 visits", "tail_information", "31-100"),
    Column("… share of real", "tail_information_share"),
    Column("… of the previous visit", "tail_information_previous"),
)
_LOSS = "validation loss per visit"


def told(measured: Measured | None, scale: float = 1.0) -> str:
    """A number with half of its interval.

    >>> told(Measured(0.5, 0.4, 0.6, 5)), told(None), told(Measured(2.0, None, None, 1))
    ('0.500 ± 0.100', '–', '2.000')
    """
    if measured is None:
        return "–"
    half = "" if measured.half is None else f" ± {scale * measured.half:.3f}"
    return f"{scale * measured.value:.3f}{half}"


def _scale(column: Column) -> float:
    """Shares of codes are told in thousandths."""
    return 1000.0 if column.metric == "tail_mass" else 1.0


def rows_table(study: Study, columns: tuple[Column, ...], pairs: bool) -> str:
    """The scores of every row and reference, with the number of fits, passes and validation loss."""
    heading = ["row", "fits", "passes", "validation loss", *(column.heading for column in columns)]
    lines = []
    for reference in study.references:
        cells = [told(study.measured(reference, column.metric, column.stratum), _scale(column)) for column in columns]
        if set(cells) != {"–"}:
            lines.append([reference.label, "–", "–", "–", *cells])
    for row in study.rows:
        costs = study.costs.get(row, [])
        losses = [cost[_LOSS] for cost in costs if cost.get(_LOSS) is not None]
        passes = [cost["passes"] for cost in costs if "passes" in cost]
        cells = [told(study.measured(row, column.metric, column.stratum), _scale(column)) for column in columns]
        if pairs:
            cells[0] += f" ({study.counted(row, 'tail_pair_seen', columns[0].stratum)[1]:,} pairs)"
        means = [f"{sum(each) / len(each):.2f}" if each else "–" for each in (passes, losses)]
        lines.append([row, str(len(costs)), *means, *cells])
    return Table(heading, lines).markdown()


def step(study: Study, row: str, other: str, column: Column) -> str:
    """How much more a row has than another, over fits paired by seed."""
    one, two = (side(study, name, column.metric, column.stratum) for name in (row, other))
    gains = [] if one is None or two is None else paired_gains(one.by_fit, two.by_fit, "up")
    if one is None or two is None or len(gains) < 2:
        return "–"
    half = mean_half(gains, shared_error(one, two))
    scale = _scale(column)
    return f"{scale * sum(gains) / len(gains):+.3f} ± {scale * half:.3f}"


def steps_table(study: Study) -> str:
    """What each part of the recipe adds to each score, and to the validation loss."""
    lines = []
    for row, other in STEPS:
        if {row, other} <= set(study.rows):
            cells = [step(study, row, other, column) for column in PARTS]
            losses = [[cost[_LOSS] for cost in study.costs[name]] for name in (row, other)]
            gains = [one - two for one, two in zip(*losses, strict=False)]
            loss = f"{sum(gains) / len(gains):+.3f}" + (f" ± {mean_half(gains):.3f}" if len(gains) > 1 else "")
            lines.append([f"{row} less {other}", *cells, loss])
    return Table(["difference", *(column.heading for column in PARTS), "validation loss"], lines).markdown()


def page(kind: str, studies: list[Study]) -> str:
    """The tables of all experiments, one after another."""
    title = {"parts": "# The paper's headline taken apart", "tail": "# What each row knows of the tail"}[kind]
    assert __doc__ is not None
    lines = [title, "", f"Made by `benchmarks/run_tables.py {kind}`, which says how; columns are explained in"]
    up = "../.." if kind == "parts" else ".."
    lines += [f"[metrics]({up}/docs/metrics.md), rows in [methods]({up}/docs/methods.md). After ± half of the 95 %"]
    lines += ["interval: over fits and test patients where a row has several fits, else over patients.", ""]
    for study in studies:
        parts, patients = study.prepared["parts"], study.spec["sample"]["patients"]
        sizes = f"{parts['train'][0]:,} training and {parts['test'][0]:,} test patients"
        drawn = f"{patients:,} patients a sample" if patients else "as many patients a sample"
        settings = ", ".join(f"{name} {number(value)}" for name, value in study.spec["fit"]["settings"].items())
        lines += [f"## {study.name}", "", f"{study.title}: {sizes}, {drawn}; {settings}.", ""]
        lines += [rows_table(study, PARTS if kind == "parts" else TAIL, kind == "parts")]
        if kind == "parts":
            lines += ["Differences of fits paired by seed:", "", steps_table(study)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("parts", "tail"))
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.write_text(page(asked.kind, [Study.open(run) for run in asked.runs]))


if __name__ == "__main__":
    main()
