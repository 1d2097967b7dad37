"""Next visits of held-out patients: what each method finds, whether its probabilities are right, and examples."""

from __future__ import annotations

import textwrap
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, PALETTE, only_horizontal_grid, panels

_STRATA = ("all", "head", "mid", "tail", "new all", "new tail")
_BARS = {"hit_rate": "drawn codes that came", "recall_at_20": "real codes among the 20 likeliest"}
#: Colours of the paper's table: correct teal, tail orange, wrong red, missed grey.
ROLE_COLOURS = {"correct": "#00796B", "wrong": "#C62828", "missed": "#8A8A8A", "history": INK, "truth": INK}
TAIL_COLOUR = "#C77700"
_MARKS = {"correct": "✓ ", "wrong": "✗ ", "missed": "○ "}


def next_visit_scores(scores: pl.DataFrame) -> tuple[Figure, str]:
    """Hit rate and recall by stratum for every method, with intervals, and the caption."""
    methods = scores["method"].unique(maintain_order=True).to_list()
    strata = [name for name in _STRATA if name in set(scores["stratum"])]
    with panels(1, 2, width=5.4, height=3.4) as (figure, axes):
        for axis, (measure, label) in zip(axes[0], _BARS.items(), strict=True):
            _grouped_bars(axis, scores.filter(pl.col("measure") == measure), methods, strata)
            axis.set_title(label)
            axis.set_ylabel("share")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), fontsize=8)
    patients = int(scores["patients"][0])
    caption = (
        f"The next visit of all {patients:,} eligible held-out patients, given every visit before it. Left: share of "
        "the "
        "codes drawn by a method that really came. Right: share of the real codes among the 20 that the method holds "
        "likeliest. 'new' leaves out codes of the patient's own history. Whiskers: 95 % intervals over patients."
    )
    return figure, caption


def _grouped_bars(axis: Axes, table: pl.DataFrame, methods: list[str], strata: list[str]) -> None:
    width = 0.84 / max(len(methods), 1)
    for number, method in enumerate(methods):
        rows = {row["stratum"]: row for row in table.filter(pl.col("method") == method).to_dicts()}
        centres, values, below, above = [], [], [], []
        for column, stratum in enumerate(strata):
            row = rows.get(stratum)
            if row is None or row["value"] is None:
                continue
            centres.append(column + (number - (len(methods) - 1) / 2) * width)
            values.append(row["value"])
            below.append(max(0.0, row["value"] - row["low"]))
            above.append(max(0.0, row["high"] - row["value"]))
        axis.bar(
            centres, values, width * 0.92, yerr=[below, above], color=PALETTE[number % len(PALETTE)], label=method,
            error_kw={"elinewidth": 0.8, "ecolor": FAINT},
        )  # fmt: skip
    axis.set_xticks(range(len(strata)), strata)
    only_horizontal_grid(axis)


def next_visit_calibration(bins: pl.DataFrame) -> tuple[Figure, str]:
    """Observed against expected share in bins of probability, one panel per stratum, and the caption."""
    methods = bins["method"].unique(maintain_order=True).to_list()
    with panels(1, 3, width=3.6, height=3.4) as (figure, axes):
        for axis, stratum in zip(axes[0], ("head", "mid", "tail"), strict=True):
            for number, method in enumerate(methods):
                mine = (pl.col("method") == method) & (pl.col("stratum") == stratum) & (pl.col("events") > 0)
                part = bins.filter(mine & (pl.col("expected") > 0))
                colour = PALETTE[number % len(PALETTE)]
                axis.plot(
                    part["expected"], part["observed"], "o-", color=colour, markersize=3, linewidth=1, label=method
                )
            axis.plot([1e-5, 1], [1e-5, 1], color=FAINT, linewidth=0.8)
            axis.set(xscale="log", yscale="log", xlabel="expected share", ylabel="observed share", title=stratum)
        axes[0, 0].legend(fontsize=7)
    caption = (
        "Calibration of next-visit probabilities by stratum: codes of all patients in bins of the probability that a "
        "method "
        "gave them, against how often they came. Bins without any event are not drawn. On the line is calibrated."
    )
    return figure, caption


def neighbour_overlap(table: pl.DataFrame) -> tuple[Figure, str]:
    """Share of the real top neighbours of tail codes that each method has too, and the caption."""
    references = table["reference"].unique(maintain_order=True).to_list()
    with panels(1, len(references), width=4.4, height=0.9 + 0.3 * table["method"].n_unique()) as (figure, axes):
        for axis, reference in zip(axes[0], references, strict=True):
            part = table.filter(pl.col("reference") == reference)
            places = list(range(len(part)))
            spread = [(part["mean"] - part["low"]).to_list(), (part["high"] - part["mean"]).to_list()]
            axis.errorbar(part["mean"], places, xerr=spread, fmt="o", color=PALETTE[0], markersize=4, elinewidth=1)
            axis.set_yticks(places, part["method"].to_list())
            axis.set_ylim(len(part) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.set(xlabel="share of the top neighbours", title=f"against {reference}")
    top = int(table["top"][0])
    caption = (
        f"Of the {top} most frequent neighbours of each tail code in reality, the share that are among its {top} most "
        "frequent ones in what a method wrote; mean over tail codes with 95 % intervals. A code that is never written "
        "counts 0. Held-out patients show what real people of that number reach."
    )
    return figure, caption


def example_figure(table: pl.DataFrame, example: int = 0) -> tuple[Figure, str]:
    """One example as the paper's table, a column for each source, and the caption."""
    part = table.filter(pl.col("example") == example)
    sources = part["source"].unique(maintain_order=True).to_list()
    longest = max(len(part.filter(pl.col("source") == source)) for source in sources)
    with panels(1, 1, width=2.5 * len(sources), height=0.5 + 0.22 * longest) as (figure, axes):
        axis = axes[0, 0]
        axis.set_axis_off()
        axis.set(xlim=(0, len(sources)), ylim=(longest + 0.6, -0.9))
        for column, source in enumerate(sources):
            axis.text(column + 0.02, -0.5, source, fontweight="bold", fontsize=8.5)
            for line, row in enumerate(part.filter(pl.col("source") == source).to_dicts()):
                axis.text(column + 0.02, line + 0.3, _told(row), fontsize=7, color=_colour(row), va="center")
        axis.axhline(-0.25, color=FAINT, linewidth=0.8)
    caption = (
        "One held-out history, the visit that really followed and one visit drawn by each method: ✓ correct (teal), "
        "◆ correct and a tail code (orange), ✗ wrong (red), ○ missed (grey). The example was chosen by a hash of its "
        "history, without a look at what followed."
    )
    return figure, caption


def _told(row: dict[str, Any]) -> str:
    text = row["description"] or row["code"]
    return _MARKS.get(row["role"], "") + textwrap.shorten(text, 34, placeholder=" …") + (" ◆" if row["tail"] else "")


def _colour(row: dict[str, Any]) -> str:
    return TAIL_COLOUR if row["role"] == "correct" and row["tail"] else ROLE_COLOURS[row["role"]]
