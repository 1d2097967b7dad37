"""What classifiers trained on synthetic patients are worth, and whether their probabilities hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, PALETTE, only_horizontal_grid, panels


def downstream_bars(
    values: Mapping[str, Sequence[tuple[float, float | None, float | None] | None]],
    headings: Sequence[str],
    ceiling: Sequence[float | None],
) -> tuple[Figure, str]:
    """Bars of each row's (value, low, high) by heading, with the real-trained ceiling as a line.

    >>> figure, _ = downstream_bars({"a": [(0.5, 0.4, 0.6)]}, ["AUPRC"], [0.9])
    >>> len(figure.axes)
    1
    """
    width = 0.8 / max(len(values), 1)
    with panels(1, 1, width=max(7.0, 1.3 * len(headings) * max(1, len(values) / 4)), height=3.4) as (figure, axes):
        axis = axes[0, 0]
        for number, (name, row) in enumerate(values.items()):
            at = [x - 0.4 + (number + 0.5) * width for x, cell in enumerate(row) if cell is not None]
            known = [cell for cell in row if cell is not None]
            errors = [
                [v - (v if low is None else low) for v, low, _ in known],
                [(v if high is None else high) - v for v, _, high in known],
            ]
            axis.bar(at, [v for v, _, _ in known], width * 0.92, color=PALETTE[number % len(PALETTE)], label=name)
            axis.errorbar(at, [v for v, _, _ in known], yerr=errors, fmt="none", ecolor=INK, elinewidth=0.8)
        for x, best in enumerate(ceiling):
            if best is not None:
                label = "trained on real patients" if x == 0 else None
                axis.plot([x - 0.42, x + 0.42], [best, best], color=INK, linewidth=1.2, linestyle="--", label=label)
        axis.set_xticks(range(len(headings)), headings)
        axis.set(ylabel="score on real test patients", ylim=(0, 1.02))
        only_horizontal_grid(axis)
        axis.legend(fontsize=7.5, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    caption = (
        "Classifiers learn from synthetic patients and are judged on real ones; whiskers are 95 % intervals over the "
        "real test patients. The dashed line is what classifiers trained on real patients reach."
    )
    return figure, caption


def reliability_diagrams(curves: Mapping[str, Mapping[str, Any]]) -> tuple[Figure, str]:
    """Observed share against predicted probability, over all labels and over the rarest, one line per row.

    >>> bins = {"probability": [0.1, None], "observed": [0.2, None], "n": [10.0, 0.0]}
    >>> len(reliability_diagrams({"a": {"all": bins, "tail": bins}})[0].axes)
    2
    """
    with panels(1, 2, width=4.6, height=4.0) as (figure, axes):
        for axis, (stratum, title) in zip(axes[0], (("all", "All labels"), ("tail", "The rarest labels")), strict=True):
            axis.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
            for number, (name, curve) in enumerate(curves.items()):
                if stratum in curve:
                    _diagram(axis, curve[stratum], name, PALETTE[number % len(PALETTE)])
            axis.set(xlabel="predicted probability", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
            axis.set_title(title)
        axes[0, 0].legend(fontsize=7.5, loc="upper left")
    caption = (
        "Fifteen equally wide bins; the area of a dot is the share of predictions in its bin. On the line, seven of "
        "ten patients called 70 % likely have the label; below it the classifier is too sure."
    )
    return figure, caption


def _diagram(axis: Axes, bins: Mapping[str, Sequence[float | None]], name: str, colour: str) -> None:
    """One line of a reliability diagram."""
    n = np.array(bins["n"], dtype=float)
    said = np.array([np.nan if x is None else x for x in bins["probability"]], dtype=float)
    seen = np.array([np.nan if x is None else x for x in bins["observed"]], dtype=float)
    full = n > 0
    axis.plot(said[full], seen[full], color=colour, linewidth=1.2, label=name)
    axis.scatter(said[full], seen[full], s=8 + 160 * n[full] / max(n.sum(), 1), color=colour, alpha=0.7, linewidths=0)
