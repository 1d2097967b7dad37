"""Requested against achieved prevalence of a steered population."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adapcla.data import Prevalence
from adapcla.report.style import FAINT, PALETTE, panels


def requested_against_achieved(
    source: Prevalence, target: Prevalence, achieved: dict[str, Prevalence], n_visits: int
) -> Figure:
    """One panel for each mode: achieved against requested prevalence of every code with a target.

    >>> share = Prevalence.of({"A": 0.5, "B": 0.1})
    >>> len(requested_against_achieved(share, share, {"paper": share}, 1000).axes)
    1
    """
    known = target.known & (np.nan_to_num(target.share) > 0)
    wish = target.share[known]
    before = np.nan_to_num(source.on(target.vocabulary).share)[known]
    least = max(0.3 / max(n_visits, 1), 1e-7)
    with panels(1, len(achieved), width=4.4, height=3.8) as (figure, axes):
        for axis, (name, prevalence) in zip(axes[0], achieved.items(), strict=True):
            share = np.nan_to_num(prevalence.on(target.vocabulary).share)[known]
            axis.scatter(wish, np.maximum(before, least), s=5, color=FAINT, alpha=0.35, label="source population")
            axis.scatter(wish, np.maximum(share, least), s=6, color=PALETTE[1], alpha=0.6, label="generated")
            _band(axis, wish, n_visits, least)
            axis.set(xscale="log", yscale="log", xlabel="requested share of visits", ylabel="achieved share of visits")
            axis.set_title(f"{name}")
            axis.legend(loc="upper left", fontsize=8)
    return figure


def _band(axis: object, wish: NDArray[np.float64], n_visits: int, least: float) -> None:
    """The diagonal with three standard errors of sampling around it."""
    line = np.geomspace(max(wish.min(), least), wish.max(), 200)
    error = 3 * np.sqrt(line * (1 - line) / max(n_visits, 1))
    axis.plot(line, line, color="black", linewidth=0.8)  # type: ignore[attr-defined]
    axis.fill_between(line, np.maximum(line - error, least), line + error, color="black", alpha=0.08)  # type: ignore[attr-defined]
