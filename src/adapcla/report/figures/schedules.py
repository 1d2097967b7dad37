"""Schedules against each other: what the probes gained, and how much of that is time without a scaffold."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, PALETTE, panels

_SHOWN = {"auc": "AUC of related rare codes", "mean_gain": "mean gain of related rare codes"}


def schedule_comparison(table: pl.DataFrame, explained: pl.DataFrame) -> tuple[Figure, str]:
    """Final gain by schedule, then AUC and signed mean gain against ∫(1 − α), and the caption."""
    with panels(1, 3, width=4.1, height=3.5) as (figure, axes):
        _final_gain(axes[0, 0], table.filter(pl.col("measure") == "final_gain"))
        for axis, (measure, label) in zip(axes[0, 1:], _SHOWN.items(), strict=True):
            _against_free_share(axis, table.filter(pl.col("measure") == measure), label)
            share = explained.filter((pl.col("measure") == measure) & (pl.col("by") == "free_share"))["between"][0]
            percentage = "not defined" if share is None or share != share else f"{share:.2f}"
            axis.set_title(f"explained by ∫(1 − α): {percentage}")
    caption = (
        "Related-rare probes under each schedule, same seeds and steps; bars and whiskers are 95 % intervals over "
        "contexts. "
        "Left: final gain over θ0. Middle and right: the paper's AUC and the signed mean gain against the share of "
        "training without a scaffold; the title gives the share of the variance between runs that this share "
        "explains alone."
    )
    return figure, caption


def _final_gain(axis: Axes, table: pl.DataFrame) -> None:
    names = table["schedule"].to_list()
    places = range(len(names))
    low, high = table["mean"] - table["low"], table["high"] - table["mean"]
    axis.errorbar(
        table["mean"], list(places), xerr=[low.fill_nan(0).fill_null(0), high.fill_nan(0).fill_null(0)],
        fmt="o", color=PALETTE[0], markersize=4, elinewidth=1,
    )  # fmt: skip
    axis.axvline(0, color=FAINT, linewidth=0.8)
    axis.set_yticks(list(places), names)
    axis.invert_yaxis()
    axis.set(xlabel="final gain, log p", title="Final gain")


def _against_free_share(axis: Axes, table: pl.DataFrame, label: str) -> None:
    ramps = table["schedule"].str.starts_with("ramp")
    for mask, colour, name in ((~ramps, PALETTE[1], "the paper's"), (ramps, PALETTE[0], "one onset, other slopes")):
        part = table.filter(mask)
        if len(part):
            axis.scatter(part["free_share"], part["mean"], color=colour, s=24, label=name, zorder=3)
    # Neighbours on the axis take turns on the right and on the left, so that their names do not meet.
    for number, row in enumerate(table.sort("free_share", "schedule").to_dicts()):
        name, at = row["schedule"].removeprefix("ramp:"), (row["free_share"], row["mean"])
        side, offset = ("right", (-6, -3)) if number % 2 else ("left", (6, -3))
        axis.annotate(name, at, xytext=offset, ha=side, textcoords="offset points", fontsize=7, color=FAINT)
    axis.margins(x=0.18, y=0.15)
    axis.set(xlabel="share of training without scaffold, ∫(1 − α)", ylabel=label)
    axis.legend(fontsize=7.5)
