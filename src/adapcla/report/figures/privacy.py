"""How well the strongest attack tells members from others, and how many more copies there are than chance makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, PALETTE, panels
from adapcla.study.results import Measured


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
    """Excess of copies by kind for each row, with intervals; zero is what fresh patients of the same law would show.

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
        "than chance. The train copy row shows what a photocopier looks like to this test."
    )
    return figure, caption


Point = tuple[Measured, Measured]


def memory_against_tail(
    points: Mapping[str, Point], references: Mapping[str, Point], real: Measured | None, knows: str
) -> tuple[Figure, str]:
    """Memory (x) against what is known of the tail (y): a point for each row and reference, a line for real patients.

    >>> point = Measured(0.02, 0.01, 0.03, 1), Measured(0.1, 0.09, 0.11, 1)
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
            # Above and below in turn: real patients and the law stand close together.
            away = (6, -12 if number % 2 else 5)
            axis.annotate(name, (gap.value, tail.value), away, textcoords="offset points", fontsize=7.5, color=INK)
        axis.margins(x=0.12, y=0.1)
        axis.axvspan(min(-0.01, axis.get_xlim()[0]), 0.01, color=FAINT, alpha=0.15, zorder=0)
        if real is not None:
            axis.axhline(real.value, linewidth=0.8, color=FAINT, linestyle=":")
        axis.set(xlabel="one-patient pairs, gap (0: nobody is remembered)", ylabel=knows)
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = (
        "What is remembered of single training patients (right), and what is known of the tail of other patients (up); "
        "95 % intervals. Rings are references, the dotted line is what real patients reach, and the band is a gap of "
        "at most .01. Who knows the tail is up and left; who copied it is up and right."
    )
    return figure, caption
