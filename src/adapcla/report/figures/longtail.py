"""The long tail of a cohort: how often each code occurs, codes per visit, visits per patient."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.report.style import FAINT, PALETTE, STRATUM_COLOURS, only_horizontal_grid, panels, thousands

#: Bars of a histogram at most; what lies beyond is one last bar.
_MOST_BARS = 40


def longtail(cohort: Cohort) -> Figure:
    """Three panels: frequency against rank by stratum, codes per visit, visits per patient.

    >>> len(longtail(Cohort.of([[["A", "B"], ["B"]], [["C"]]])).axes)
    3
    """
    with panels(1, 3, width=4.0, height=3.2) as (figure, axes):
        _frequency_rank(axes[0, 0], cohort)
        _histogram(axes[0, 1], cohort.codes_per_visit, "Codes per visit", "codes", "visits")
        _histogram(axes[0, 2], cohort.visits_per_patient, "Visits per patient", "visits", "patients")
    return figure


def _frequency_rank(axes: Axes, cohort: Cohort) -> None:
    """Visits of each code against its rank, both on logarithmic scales."""
    strata = cohort.strata()
    present = np.flatnonzero(strata.present)
    # The strata count from the rarest, ties by code string: reversed, their parts lie side by side.
    order = present[np.argsort(strata.counts[present], kind="stable")][::-1]
    rank = np.arange(1, len(order) + 1)
    for name, colour in STRATUM_COLOURS.items():
        inside = getattr(strata, name)[order]
        share = strata.counts[order][inside].sum() / max(cohort.n_entries, 1)
        axes.plot(
            rank[inside],
            strata.counts[order][inside],
            color=colour,
            linewidth=2.6,
            solid_capstyle="butt",
            marker="o" if inside.sum() < 30 else "",
            markersize=3,
            label=f"{name}: {int(inside.sum()):,} codes, {100 * share:.1f} % of entries",
        )
    axes.set(xscale="log", yscale="log", xlabel="rank of the code", ylabel="visits with the code")
    axes.set_title("The long tail")
    axes.set_ylim(bottom=0.8)
    axes.set_xlim(left=0.9)
    thousands(axes.xaxis)
    thousands(axes.yaxis)
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize=7.5, handlelength=1.2)


def _histogram(axes: Axes, values: NDArray[np.int64], title: str, each: str, what: str) -> None:
    """Shares of each value, with the mean marked; values beyond the last bar are gathered in it."""
    axes.set_title(title)
    axes.set(xlabel=each, ylabel=f"share of {what}")
    only_horizontal_grid(axes)
    if len(values) == 0:
        return
    top = int(min(values.max(), max(_MOST_BARS, 1)))
    counts = np.bincount(np.minimum(values, top), minlength=top + 1)[1:]
    axes.bar(np.arange(1, top + 1), counts / len(values), width=0.85, color=PALETTE[0])
    mean = float(values.mean())
    axes.axvline(mean, color=FAINT, linewidth=1, linestyle="--")
    # Above the axes: a bar may reach the top anywhere.
    axes.set_title(
        f"mean {mean:.1f}, most {int(values.max()):,}", loc="right", color=FAINT, fontsize=8, weight="normal"
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlim(0.3, top + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if values.max() > top:
        axes.set_xlabel(f"{each} (the last bar: {top} or more)")
