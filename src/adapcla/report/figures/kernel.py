"""The kernel before training against what the probes gained."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.figures.dynamics import KIND_COLOURS
from adapcla.report.style import PALETTE, panels

_GROUPS = {"all": "all parameters", "shared": "parameters that codes share"}


def kernel_scatter(
    similarities: pl.DataFrame, eigenvalues: pl.DataFrame, correlations: pl.DataFrame
) -> tuple[Figure, str]:
    """Similarity against gain and λ_min against AUC, one row per parameter group, and the caption."""
    groups = [group for group in _GROUPS if group in set(similarities["group"])]
    most = int(correlations["contexts"].max())  # type: ignore[arg-type]
    with panels(len(groups), 2, width=4.6, height=3.2) as (figure, axes):
        for row, group in enumerate(groups):
            part = similarities.filter(pl.col("group") == group)
            for kind, colour in KIND_COLOURS.items():
                mine = part.filter(pl.col("kind") == kind)
                label = kind.replace("_", " ")
                axes[row, 0].scatter(
                    mine["similarity"], mine["final_gain"], s=10, alpha=0.65, color=colour, label=label
                )
            axes[row, 0].set(xlabel="kernel similarity with the context, θ0", ylabel="final gain, log p")
            axes[row, 0].legend(fontsize=7.5)
            _titled(axes[row, 0], correlations, most, group, "similarity", "final_gain")
            of_group = eigenvalues.filter(pl.col("group") == group)
            axes[row, 1].scatter(
                of_group["smallest_eigenvalue"], of_group["mean_gain"], s=14, color=PALETTE[1], alpha=0.8
            )
            axes[row, 1].set(xlabel="λ_min over related rare codes, θ0", ylabel="mean gain, log p")
            _titled(axes[row, 1], correlations, most, group, "smallest_eigenvalue", "mean_gain")
    caption = (
        "Left: similarity of a probe code's gradient with those of the context's codes before training, against the "
        "gain "
        "in log p. Right: the smallest eigenvalue of the kernel over a context's related rare codes against their "
        "mean gain. "
        f"Rows: {', '.join(_GROUPS[group] for group in groups)}. Titles give Spearman's correlation over {most} "
        "contexts."
    )
    return figure, caption


def _titled(axis: Axes, correlations: pl.DataFrame, contexts: int, group: str, x: str, y: str) -> None:
    """Write the correlation of a panel as its title."""
    chosen = (pl.col("contexts") == contexts) & (pl.col("group") == group) & (pl.col("x") == x) & (pl.col("y") == y)
    row = correlations.filter(chosen & (pl.col("kind") == "all")).to_dicts()[0]
    correlation = (
        "cannot be asked"
        if row["rho"] is None or row["rho"] != row["rho"]
        else f"ρ = {row['rho']:+.2f}, p = {row['p']:.2g}"
    )
    axis.set_title(f"{_GROUPS[group]}\n{correlation}, n = {row['n']}", fontsize=9)
