"""The tail in one picture: every metric between its floor and its ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, panels

#: Values beyond these are drawn as these: a score above its ceiling is memory or luck, not more quality.
_LOW, _HIGH = -0.25, 1.25


def tail_scorecard(values: Mapping[str, Sequence[float | None]], headings: Sequence[str]) -> tuple[Figure, str]:
    """A heat map of normalised scores, rows × metrics: 0 the floor (plain chance), 1 the ceiling (real patients).

    >>> len(tail_scorecard({"a": [0.5, None]}, ["one", "two"])[0].axes)
    2
    """
    rows = list(values)
    grid = np.array([[np.nan if x is None else x for x in values[row]] for row in rows], dtype=float)
    width, height = 2.4 + 0.62 * len(headings), 1.7 + 0.36 * len(rows)
    with panels(1, 1, width=width, height=height) as (figure, axes):
        axis = axes[0, 0]
        drawn = axis.imshow(np.clip(grid, _LOW, _HIGH), cmap="PuOr", vmin=-0.25, vmax=1.25, aspect="auto")
        for (y, x), value in np.ndenumerate(grid):
            text = "–" if np.isnan(value) else f"{value:.2f}"
            ink = FAINT if np.isnan(value) else "white" if abs(np.clip(value, _LOW, _HIGH) - 0.5) > 0.55 else INK
            axis.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)
        axis.set_xticks(range(len(headings)), headings, rotation=35, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(rows)), rows)
        axis.grid(visible=False)
        for spine in axis.spines.values():
            spine.set_visible(False)
        figure.colorbar(drawn, ax=axis, shrink=0.9, label="0 floor … 1 ceiling")
    caption = (
        "0 is what independent draws from the training prevalence score, 1 what other real patients score, on the same "
        "number of patients. Above 1 lies closer to the training data than real patients are. A dash: floor and "
        "ceiling are too near each other to say."
    )
    return figure, caption
