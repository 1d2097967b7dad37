"""The internalisation error of the exact setting against the bound on it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, PALETTE, panels
from adapcla.study.analysis.internalization import Flow


def bound_against_error(flows: Sequence[Flow]) -> tuple[Figure, str]:
    """One panel per schedule: the error's radius, the theorem's bound and its sharp form over time, and the caption."""
    columns = min(4, len(flows))
    rows = -(-len(flows) // columns)
    with panels(rows, columns, width=3.2, height=2.9) as (figure, axes):
        for number, run in enumerate(flows):
            axis = axes[number // columns, number % columns]
            progress = run.time / run.setting.horizon
            axis.plot(progress, run.radius, color=PALETTE[1], label="error ‖e‖")
            axis.plot(progress, run.sharp_bound(run.path_curvature), color=PALETTE[2], label="bound with ∫|α̇|")
            axis.plot(progress, run.bound(run.path_curvature), color=PALETTE[0], label="theorem")
            axis.set(yscale="log", xlabel="progress", xlim=(0, 1))
            share = float((run.radius / run.bound(run.path_curvature)).max())
            axis.set_title(f"{run.schedule.name}\nuses at most {100 * share:.2g} %", fontsize=9)
            axis.margins(y=0.15)
        for spare in axes.ravel()[len(flows) :]:
            spare.set_axis_off()
        axes[0, 0].set_ylabel("norm of K⁻¹")
        axes[0, 0].legend(fontsize=7.5, loc="center right")
    caption = (
        "A linear head on frozen features in the planted world, where the theorem's assumptions hold: the "
        "internalisation "
        "error along the integrated flow, the theorem's bound, and the bound before the supremum of |α̇| is taken. The "
        "bound is never crossed; titles say how much of it the error uses at most."
    )
    return figure, caption


def endpoint_deviation(table: pl.DataFrame) -> tuple[Figure, str]:
    """How far the real network's logits moved along the scaffold, by schedule and stratum, and the caption."""
    strata = ["all", "head", "mid", "tail"]
    names = table["schedule"].unique(maintain_order=True).to_list()
    with panels(1, 2, width=4.6, height=3.3) as (figure, axes):
        for axis, column, label in (
            (axes[0, 0], "deviation", "root mean square of z_T − z_0 − b"),
            (axes[0, 1], "share_internalised", "slope of z_T − z_0 on b"),
        ):
            for number, stratum in enumerate(strata):
                mine = table.filter(pl.col("stratum") == stratum)
                part = mine.group_by("schedule", maintain_order=True).agg(pl.col(column).mean())
                places = [names.index(name) + 0.18 * (number - 1.5) for name in part["schedule"]]
                axis.plot(places, part[column], "o", color=PALETTE[number], markersize=4, label=stratum)
            axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
            axis.set_ylabel(label)
        axes[0, 0].set_ylim(bottom=0)
        axes[0, 1].axhline(1, color=FAINT, linewidth=0.8, linestyle="--")
        axes[0, 1].axhline(0, color=FAINT, linewidth=0.8)
        axes[0, 0].legend(fontsize=7.5, ncols=2)
    caption = (
        "The real network: distance of the logits' drift from the scaffold, and the share of the scaffold that the "
        "drift "
        "amounts to (dashed: all of it). A network that starts at the prevalences has no reason to move by b."
    )
    return figure, caption
