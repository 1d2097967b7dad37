"""Who knows the tail and who copied it, at one glance: tail swap and tail information of every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, PALETTE, panels
from adapcla.study.results import Measured


class Known(NamedTuple):
    """What a row knows of rare codes: tail swap of test and of training patients, and its share of real information."""

    swap: Measured | None
    swap_training: Measured | None
    share: Measured | None


def tail_knowledge(rows: Mapping[str, Known], references: Mapping[str, Known] | None = None) -> tuple[Figure, str]:
    """Two panels, rows from top to bottom: how often the rare code is told from others, and what its company is worth.

    >>> number = Measured(0.7, 0.6, 0.8, 3)
    >>> len(tail_knowledge({"a": Known(number, None, number), "b": Known(None, None, number)})[0].axes)
    2
    """
    everybody = {**rows, **(references or {})}
    with panels(1, 2, width=4.4, height=1.3 + 0.3 * len(everybody)) as (figure, axes):
        swap, share = axes[0]
        for height, known in enumerate(everybody.values()):
            beside = height >= len(rows)
            if known.swap_training is not None and known.swap is not None:
                ends = [known.swap.value, known.swap_training.value]
                swap.plot(ends, [height, height], color=FAINT, linewidth=0.8, linestyle=":")
            _dot(swap, known.swap, height, INK if beside else PALETTE[0], "test patients")
            _dot(swap, known.swap_training, height, PALETTE[1], "training patients (memory)", hollow=True)
            _dot(share, known.share, height, INK if beside else PALETTE[0], "")
            if known.swap is None and not beside:
                swap.text(0.505, height, "no likelihood", fontsize=7, color=FAINT, va="center")
        swap.axvline(0.5, color=FAINT, linewidth=0.9)
        for x, word in ((0.0, "chance"), (1.0, "real patients")):
            share.axvline(x, color=FAINT, linewidth=0.9)
            share.text(x, -0.62, word, fontsize=7, color=FAINT, ha="center", va="bottom")
        swap.text(0.5, -0.62, "chance", fontsize=7, color=FAINT, ha="center", va="bottom")
        lows = [
            side.low for known in everybody.values() for side in known[:2] if side is not None and side.low is not None
        ]
        swap.set(xlabel="chance to tell the rare code from others as rare", xlim=(min([0.42, *lows]) - 0.02, 1.02))
        share.set(xlabel="information, share of as many real patients")
        for axis, title in ((swap, "Tail swap, 1–5 training visits"), (share, "Tail information, all rare codes")):
            axis.set_title(title, pad=16)
            axis.set_yticks(range(len(everybody)), list(everybody) if axis is swap else [""] * len(everybody))
            axis.set_ylim(len(everybody) - 0.5, -0.5)
        handles, labels = swap.get_legend_handles_labels()
        first = dict(zip(labels, handles, strict=True))
        if first:
            figure.legend(first.values(), first.keys(), loc="outside lower center", ncols=2, fontsize=7.5)
    return figure, _CAPTION


def _dot(axis: Axes, measured: Measured | None, height: int, colour: str, label: str, hollow: bool = False) -> None:
    """A number with its interval; nothing for none."""
    if measured is None:
        return
    if measured.low is not None and measured.high is not None:
        axis.plot([measured.low, measured.high], [height, height], color=colour, linewidth=1)
    face = "white" if hollow else colour
    axis.plot(measured.value, height, "o", color=colour, markerfacecolor=face, markersize=4.5, label=label)


_CAPTION = (
    "Left: how often a model finds a visit likelier than the same visit with another code as rare in the place of its "
    "rare code. Far apart dots of one row are memory: what it knows of training patients and not of others. Right: "
    "what the company of rare codes in the written patients gains on test visits, as a share of what as many real "
    "patients gain; left of chance, what was written is wrong. Whiskers: 95 % intervals."
)
