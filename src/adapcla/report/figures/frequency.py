"""How often each code comes: frequency against rank, against the real frequency, and rank against rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from adapcla.data import Cohort
from adapcla.report.style import FAINT, INK, PALETTE, STRATUM_COLOURS, panels, thousands

_COLUMNS = 4


def shares(cohort: Cohort, like: Cohort) -> NDArray[np.float64]:
    """The share of visits that hold each code of `like`'s vocabulary.

    >>> shares(Cohort.of([[["B"], ["A", "B"]]]), Cohort.of([[["A", "B", "C"]]])).tolist()
    [0.5, 1.0, 0.0]
    """
    return np.nan_to_num(cohort.prevalence().on(like.vocabulary).share)


def frequency_rank(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """Two panels: ranked frequencies over all codes, and over the tail alone on plain scales.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(frequency_rank(cohort, {"copy": cohort})[0].axes)
    2
    """
    n_tail = int(train.strata().tail.sum())
    n_codes = int((train.visit_counts > 0).sum())
    with panels(1, 2, width=5.4, height=3.6) as (figure, axes):
        for number, (name, cohort) in enumerate({"real (training)": train, **generated}.items()):
            ranked = np.sort(shares(cohort, train))[::-1]
            look = {"color": INK, "linewidth": 2.2} if number == 0 else {"color": PALETTE[(number - 1) % len(PALETTE)]}
            rank = np.arange(1, len(ranked) + 1)
            axes[0, 0].plot(rank[ranked > 0], ranked[ranked > 0], label=name, **look)
            tail = slice(max(n_codes - n_tail, 0), n_codes)
            axes[0, 1].plot(rank[tail], ranked[tail], **look)
        axes[0, 0].set(xscale="log", yscale="log", xlabel="rank of the code", ylabel="share of visits")
        axes[0, 0].set_title("All codes")
        axes[0, 1].set(xlabel="rank of the code", ylabel="share of visits")
        axes[0, 1].set_title("The rarest third")
        axes[0, 1].ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        axes[0, 0].legend(fontsize=7.5)
        thousands(axes[0, 0].xaxis)
    caption = (
        "Each cohort's own codes, most frequent first. A line below the black one has too few rare codes, a line that "
        "ends early never writes some of them. The curve says nothing about which codes stand together."
    )
    return figure, caption


def frequency_frequency(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """For each cohort its frequencies against the real ones, code by code, on scales that show zero.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(frequency_frequency(cohort, {"copy": cohort})[0].axes)
    1
    """
    real, strata = shares(train, train), train.strata()
    least = 1 / max(train.n_visits, 1)
    with _grid(len(generated)) as (figure, axes):
        for axis, (name, cohort) in zip(axes, generated.items(), strict=False):
            generated_share = shares(cohort, train)
            _by_stratum(axis, real, generated_share, strata)
            top = max(real.max(), generated_share.max(), least)
            axis.plot([0, top], [0, top], color=INK, linewidth=0.8)
            axis.set_xscale("symlog", linthresh=least)
            axis.set_yscale("symlog", linthresh=least)
            axis.set_title(f"{name}: {100 * (generated_share[real > 0] == 0).mean():.0f} % never written", fontsize=8.5)
            axis.set(xlabel="real share of visits", ylabel="generated share")
            _few_ticks(axis, least)
        axes[0].legend(fontsize=7.5, loc="upper left", markerscale=2)
    caption = (
        "Every dot is a code; the line is equality. Dots on the floor are codes that the method never wrote. "
        "Scales are logarithmic down to one training visit and linear below."
    )
    return figure, caption


def rank_rank(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """For each cohort the rank of every code against its real rank.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(rank_rank(cohort, {"copy": cohort})[0].axes)
    1
    """
    present = train.visit_counts > 0
    real = stats.rankdata(-train.visit_counts[present])
    with _grid(len(generated)) as (figure, axes):
        for axis, (name, cohort) in zip(axes, generated.items(), strict=False):
            generated_share = shares(cohort, train)[present]
            rank = stats.rankdata(-generated_share)
            axis.plot([1, len(real)], [1, len(real)], color=INK, linewidth=0.8)
            axis.scatter(real, rank, s=5, alpha=0.4, color=PALETTE[0], linewidths=0, rasterized=True)
            rho = stats.spearmanr(real, rank).statistic if np.ptp(rank) > 0 and len(real) > 1 else float("nan")
            axis.set_title(f"{name}: Spearman {rho:.3f}", fontsize=8.5)
            axis.set(xlabel="real rank", ylabel="generated rank")
    caption = (
        "Ranks of all codes, 1 the most frequent; equal counts share a rank. The cloud widens where counts are small."
    )
    return figure, caption


def _by_stratum(axis: Axes, real: NDArray[np.float64], other: NDArray[np.float64], strata: object) -> None:
    """Dots coloured by head, mid and tail."""
    for name, colour in STRATUM_COLOURS.items():
        inside = getattr(strata, name)
        axis.scatter(
            real[inside], other[inside], s=6, alpha=0.5, color=colour, linewidths=0, label=name, rasterized=True
        )


def _few_ticks(axis: Axes, least: float) -> None:
    """Zero and the round decades above one visit."""
    decades = [10.0**power for power in range(-6, 1) if 10.0**power >= least]
    for side in (axis.xaxis, axis.yaxis):
        side.set_ticks([0.0, *decades], ["0", *(f"$10^{{{round(np.log10(d))}}}$" for d in decades)])
        side.set_ticks([], minor=True)
    axis.tick_params(colors=FAINT)


class _grid:
    """Panels for a number of cohorts, in rows of four; those left over are taken away."""

    def __init__(self, n: int) -> None:
        self.n, self.columns = n, min(max(n, 1), _COLUMNS)
        self.panels = panels(-(-max(n, 1) // self.columns), self.columns, width=3.3, height=3.1)

    def __enter__(self) -> tuple[Figure, NDArray[np.object_]]:
        figure, axes = self.panels.__enter__()
        for spare in axes.ravel()[self.n :]:
            spare.remove()
        return figure, axes.ravel()[: self.n]

    def __exit__(self, *error: object) -> None:
        self.panels.__exit__(None, None, None)
