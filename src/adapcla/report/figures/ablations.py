"""Ablations against the annealed scaffold: paired differences with intervals, one panel a metric."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, PALETTE, panels

_SHOWN = ("tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac", "tail_pair_seen_heldout")


def ablation_differences(table: pl.DataFrame) -> tuple[Figure, str]:
    """Differences of each row to the reference row, positive is better, and the caption."""
    metrics = [name for name in _SHOWN if name in set(table["metric"])]
    rows = table["row"].unique(maintain_order=True).to_list()
    with panels(1, len(metrics), width=3.0, height=0.9 + 0.24 * len(rows)) as (figure, axes):
        for axis, metric in zip(axes[0], metrics, strict=True):
            axis.axvline(0, color=FAINT, linewidth=0.9)
            for place, name in enumerate(rows):
                found = table.filter((pl.col("row") == name) & (pl.col("metric") == metric)).to_dicts()
                if not found or found[0]["seeds"] == 0:
                    axis.text(0, place, "  no value", fontsize=7, color=FAINT, va="center")
                    continue
                row = found[0]
                if row["seeds"] > 1:
                    axis.plot([row["low"], row["high"]], [place, place], color=PALETTE[0], linewidth=1)
                axis.plot(row["better_by"], place, "o", color=PALETTE[0], markersize=4)
            axis.set_yticks(range(len(rows)), rows if axis is axes[0, 0] else [""] * len(rows))
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.set_title(metric)
            axis.set_xlabel("better by")
    against, seeds = table["against"][0], int(table["seeds"].max())  # type: ignore[arg-type]
    caption = (
        f"Difference of each row to '{against}', signed so that right is better; whiskers are 95 % t intervals over "
        f"paired fit seeds (at most {seeds})."
    )
    return figure, caption
