"""Probabilities along training: the tail as a whole, the three kinds of probes, the Oracle line and the scaffold."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, GRID, PALETTE, STRATUM_COLOURS, panels

KIND_COLOURS = {"related_rare": PALETTE[1], "unrelated_rare": PALETTE[0], "wrong": PALETTE[2]}
_NAMES = {"related_rare": "related rare", "unrelated_rare": "unrelated rare", "wrong": "wrong"}


def probe_dynamics(curves: pl.DataFrame) -> tuple[Figure, str]:
    """Three panels from a curve table, and the caption: strata, probes with Oracle and truth, gains of the probes."""
    kinds = [kind for kind in KIND_COLOURS if kind in set(curves["kind"])]
    with panels(1, 3, width=4.0, height=3.3) as (figure, axes):
        _strata(axes[0, 0], curves)
        _probes(axes[0, 1], curves, kinds)
        _gains(axes[0, 2], curves, kinds)
        for axis in axes[0]:
            axis.set(xlabel="progress of training", xlim=(0, 1))
            _scaffold(axis, curves)
    name = curves["schedule"][0]
    caption = (
        f"Bias-free log-probabilities along training under the schedule {name}; the grey area is the scaffold's "
        "weight α. "
        "(a) Mean over contexts and codes of each stratum. (b) Mean of each kind of probe; dashed: the Oracle line, "
        "θ0 with "
        "the scaffold really applied"
        + ("; dotted: the true log-probability, at least log 10⁻⁶" if curves["truth"].is_not_null().any() else "")
        + ". (c) The same as differences to θ0."
    )
    return figure, caption


def _strata(axis: Axes, curves: pl.DataFrame) -> None:
    for stratum, colour in STRATUM_COLOURS.items():
        part = curves.filter(pl.col("kind") == f"all {stratum}")
        axis.plot(part["progress"], part["log_p"], color=colour, label=stratum)
    axis.set_title("(a) All codes")
    axis.set_ylabel("mean log p")
    axis.legend(fontsize=8)


def _probes(axis: Axes, curves: pl.DataFrame, kinds: list[str]) -> None:
    for kind in kinds:
        part = curves.filter(pl.col("kind") == kind)
        colour = KIND_COLOURS[kind]
        axis.plot(part["progress"], part["log_p"], color=colour, label=_NAMES[kind])
        axis.axhline(part["oracle"][0], color=colour, linestyle="--", linewidth=1)
        if part["truth"][0] is not None:
            axis.axhline(part["truth"][0], color=colour, linestyle=":", linewidth=1.2)
    axis.plot([], [], color=FAINT, linestyle="--", linewidth=1, label="Oracle line")
    if curves["truth"].is_not_null().any():
        axis.plot([], [], color=FAINT, linestyle=":", linewidth=1.2, label="truth")
    axis.set_title("(b) Probes")
    axis.set_ylabel("mean log p")
    axis.legend(fontsize=8)


def _gains(axis: Axes, curves: pl.DataFrame, kinds: list[str]) -> None:
    for kind in kinds:
        part = curves.filter(pl.col("kind") == kind)
        axis.plot(part["progress"], part["log_p"] - part["log_p"][0], color=KIND_COLOURS[kind], label=_NAMES[kind])
    axis.axhline(0, color=FAINT, linewidth=0.8)
    axis.set_title("(c) Gain over θ0")
    axis.set_ylabel("log p − log p at θ0")
    axis.legend(fontsize=8)


def _scaffold(axis: Axes, curves: pl.DataFrame) -> None:
    """The weight of the scaffold as a pale area that takes the whole height at 1."""
    part = curves.filter(pl.col("kind") == "all tail")
    behind = axis.twinx()
    behind.fill_between(part["progress"], part["weight"], color=GRID, alpha=0.6, linewidth=0)
    behind.set(ylim=(0, 1), yticks=[])
    behind.grid(visible=False)
    behind.spines["left"].set_visible(False)
    axis.set_zorder(behind.get_zorder() + 1)
    axis.patch.set_visible(False)


def code_trend(trend: pl.DataFrame, title: str) -> tuple[Figure, str]:
    """One code's mean log-probability along training, with the scaffold's weight behind it, and the caption."""
    with panels(1, 1, width=4.6, height=3.0) as (figure, axes):
        axis = axes[0, 0]
        axis.plot(trend["progress"], trend["log_p"], color=PALETTE[1])
        axis.set(xlabel="progress of training", ylabel="mean log p over contexts", xlim=(0, 1), title=title)
        _scaffold(axis, trend.with_columns(kind=pl.lit("all tail")))
    return (
        figure,
        f"{title}: bias-free log-probability over the probed contexts; the grey area is the scaffold's weight.",
    )
