"""Figures of scores: utility and reliability, attacks and copies, knowledge of the tail, steering, schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adapcla.data import Prevalence
from adapcla.report.style import FAINT, INK, PALETTE, only_horizontal_grid, panels
from adapcla.scaffold import schedule
from adapcla.tables import Estimate


# ---- utility and reliability -----------------------------------------------------------------------------
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
        "Classifiers learn from synthetic patients and are evaluated on real ones; whiskers are 95 % intervals over "
        "the real test patients. The dashed line is what classifiers trained on real patients reach."
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


# ---- attacks, copies, memorisation -----------------------------------------------------------------------
def roc_curves(curves: Mapping[str, Mapping[str, Any]]) -> tuple[Figure, str]:
    """The ROC of each row's strongest attack on data alone, on plain scales and where false alarms are few.

    >>> curve = {"attack": "nearest", "auc": 0.5, "alarms": [0.0, 1.0], "caught": [0.0, 1.0]}
    >>> len(roc_curves({"a": curve})[0].axes)
    2
    """
    with panels(1, 2, width=4.6, height=3.9) as (figure, axes):
        for axis in axes[0]:
            axis.plot([1e-4, 1], [1e-4, 1], color=FAINT, linewidth=0.8)
        for number, (name, curve) in enumerate(curves.items()):
            colour = PALETTE[number % len(PALETTE)]
            label = f"{name}: {curve['auc']:.3f} ({curve['attack']})"
            axes[0, 0].plot(curve["alarms"], curve["caught"], color=colour, label=label)
            axes[0, 1].plot(curve["alarms"], curve["caught"], color=colour)
        axes[0, 0].set(xlabel="controls taken for members", ylabel="members found")
        axes[0, 0].set_title("Strongest attack on data alone")
        axes[0, 0].legend(fontsize=7.5, loc="lower right")
        axes[0, 1].set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1))
        axes[0, 1].set(xlabel="controls taken for members", ylabel="members found")
        axes[0, 1].set_title("Where false alarms are few")
    caption = (
        "An attacker with all synthetic patients guesses who was in the training data. The grey line is guessing; the "
        "number is the area under the curve, with the attack that reached it. Right: the same on logarithmic scales, "
        "because one person named with certainty is worse than many guessed a little better than chance."
    )
    return figure, caption


def copy_excess(
    values: Mapping[str, Sequence[tuple[float, float | None, float | None] | None]], headings: Sequence[str]
) -> tuple[Figure, str]:
    """Excess of copies by kind for each row, with intervals; fresh patients of the same distribution would show 0.

    >>> len(copy_excess({"a": [(0.0, -0.1, 0.1)]}, ["exact"])[0].axes)
    1
    """
    with panels(1, len(headings), width=3.4, height=max(1.6, 0.45 * len(values) + 0.9)) as (figure, axes):
        names = list(values)[::-1]
        for column, (axis, heading) in enumerate(zip(axes[0], headings, strict=True)):
            for y, name in enumerate(names):
                cell = values[name][column]
                if cell is None:
                    axis.annotate(
                        "not assessed", (0.02, y), xycoords=("axes fraction", "data"), fontsize=7, color=FAINT
                    )
                    continue
                value, low, high = cell
                axis.plot(
                    [value if low is None else low, value if high is None else high], [y, y], color=INK, linewidth=1
                )
                axis.plot([value], [y], "o", color=PALETTE[1 if (low or 0) > 0 else 0], markersize=5)
            axis.axvline(0, color=FAINT, linewidth=0.8)
            axis.set_yticks(range(len(names)), names if column == 0 else [""] * len(names))
            axis.set_ylim(-0.6, len(names) - 0.4)
            axis.set_title(heading)
            axis.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
        axes[0, 0].set_xlabel("share of synthetic records")
    caption = (
        "Copies of training patients beyond what as many control patients explain, with 95 % intervals. Orange: more "
        "than chance. The train copy row shows what memorisation looks like to this test."
    )
    return figure, caption


Point = tuple[Estimate, Estimate]


def memory_against_tail(
    points: Mapping[str, Point], references: Mapping[str, Point], real: Estimate | None, knows: str
) -> tuple[Figure, str]:
    """Memory (x) against what is known of the tail (y): a point for each row and reference, a line for real patients.

    >>> point = Estimate(0.02, 0.01, 0.03, 1), Estimate(0.1, 0.09, 0.11, 1)
    >>> len(memory_against_tail({"a": point}, {"marginal": point}, None, "tail information")[0].axes)
    1
    """
    marks = "osD^vP*Xhp<>"
    with panels(1, 1, width=7.5, height=4.2) as (figure, axes):
        axis = axes[0, 0]
        for number, (name, (gap, tail)) in enumerate(points.items()):
            style = {"color": PALETTE[number % len(PALETTE)], "marker": marks[number % len(marks)]}
            errors = {"xerr": gap.half or 0.0, "yerr": tail.half or 0.0, "elinewidth": 0.6}
            axis.errorbar(gap.value, tail.value, label=name, linestyle="", **errors, **style)
        for number, (name, (gap, tail)) in enumerate(references.items()):
            axis.plot(gap.value, tail.value, marker="o", markerfacecolor="none", color=INK, linestyle="")
            # Above and below in turn: real patients and simulated ones stand close together.
            away = (6, -12 if number % 2 else 5)
            axis.annotate(name, (gap.value, tail.value), away, textcoords="offset points", fontsize=7.5, color=INK)
        axis.margins(x=0.12, y=0.1)
        axis.axvspan(min(-0.01, axis.get_xlim()[0]), 0.01, color=FAINT, alpha=0.15, zorder=0)
        if real is not None:
            axis.axhline(real.value, linewidth=0.8, color=FAINT, linestyle=":")
        axis.set(xlabel="singleton pairs, gap (0: nobody is memorised)", ylabel=knows)
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = (
        "What is remembered of single training patients (right), and what is known of the tail of other patients (up); "
        "95 % intervals. Rings are references, the dotted line is what real patients reach, and the band is a gap of "
        "at most .01. Who knows the tail is up and left; who copied it is up and right."
    )
    return figure, caption


# ---- knowledge of the tail -------------------------------------------------------------------------------
def tail_knowledge(
    rows: Mapping[str, Estimate | None], references: Mapping[str, Estimate | None] | None = None
) -> tuple[Figure, str]:
    """Tail information of each row and reference as a dot with its interval, from top to bottom, and the caption.

    >>> len(tail_knowledge({"a": Estimate(0.7, 0.6, 0.8, 3), "b": None})[0].axes)
    1
    """
    everybody = {**rows, **(references or {})}
    with panels(1, 1, width=6.4, height=1.3 + 0.3 * len(everybody)) as (figure, axes):
        axis = axes[0][0]
        for height, share in enumerate(everybody.values()):
            colour = INK if height >= len(rows) else PALETTE[0]
            if share is None:
                axis.text(0.0, height, "  no value", fontsize=7, color=FAINT, va="center")
                continue
            if share.low is not None and share.high is not None:
                axis.plot([share.low, share.high], [height, height], color=colour, linewidth=1)
            axis.plot(share.value, height, "o", color=colour, markersize=4.5)
        for x, word in ((0.0, "chance"), (1.0, "real patients")):
            axis.axvline(x, color=FAINT, linewidth=0.9)
            axis.text(x, -0.62, word, fontsize=7, color=FAINT, ha="center", va="bottom")
        axis.set_xlabel("information, share of as many real patients")
        axis.set_title("Tail information, all rare codes", pad=16)
        axis.set_yticks(range(len(everybody)), list(everybody))
        axis.set_ylim(len(everybody) - 0.5, -0.5)
    return figure, _KNOWLEDGE_CAPTION


_KNOWLEDGE_CAPTION = (
    "What the neighbours of rare codes in the synthetic patients gain on test visits, as a share of what as many real "
    "patients gain; left of chance, what was generated is wrong. Whiskers: 95 % intervals."
)


# ---- steering --------------------------------------------------------------------------------------------
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
            _steering_band(axis, wish, n_visits, least)
            axis.set(xscale="log", yscale="log", xlabel="requested share of visits", ylabel="achieved share of visits")
            axis.set_title(f"{name}")
            axis.legend(loc="upper left", fontsize=8)
    return figure


def _steering_band(axis: object, wish: NDArray[np.float64], n_visits: int, least: float) -> None:
    """The diagonal with three standard errors of sampling around it."""
    line = np.geomspace(max(wish.min(), least), wish.max(), 200)
    error = 3 * np.sqrt(line * (1 - line) / max(n_visits, 1))
    axis.plot(line, line, color="black", linewidth=0.8)  # type: ignore[attr-defined]
    axis.fill_between(line, np.maximum(line - error, least), line + error, color="black", alpha=0.08)  # type: ignore[attr-defined]


# ---- schedules of the scaffold ---------------------------------------------------------------------------
NAMED = ("slow", "base", "fast", "cosine", "linear", "constant")


def schedule_curves(names: Sequence[str] = NAMED) -> tuple[Figure, str]:
    """α against progress for each named schedule.

    >>> figure, _ = schedule_curves(["base", "ramp:0.3,0.5"])
    >>> len(figure.axes[0].lines)
    2
    """
    progress = np.linspace(0, 1, 401)
    styles = ("-", "--", "-.", ":")
    with panels(1, 1, width=6.4, height=3.0) as (figure, axes):
        for number, name in enumerate(names):
            curve = schedule(name)
            axes[0, 0].plot(
                progress,
                [curve.weight(float(p)) for p in progress],
                color=PALETTE[number % len(PALETTE)],
                linestyle=styles[number % len(styles)],
                label=curve.name,
            )
        axes[0, 0].set(xlabel="progress of training", ylabel="weight of the scaffold", ylim=(-0.04, 1.08), xlim=(0, 1))
        axes[0, 0].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = (
        "Full support first, none at the end. Slow, base and fast have one slope and differ only in when it begins; "
        "a ramp of any width can be set."
    )
    return figure, caption
