"""What every row knows of rare codes, at one glance: its tail information as a share of that of real patients."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from adapcla.report.style import FAINT, INK, PALETTE, panels
from adapcla.study.results import Measured


def tail_knowledge(
    rows: Mapping[str, Measured | None], references: Mapping[str, Measured | None] | None = None
) -> tuple[Figure, str]:
    """One dot with its interval for each row and reference, from top to bottom, and the caption.

    >>> len(tail_knowledge({"a": Measured(0.7, 0.6, 0.8, 3), "b": None})[0].axes)
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
    return figure, _CAPTION


_CAPTION = (
    "What the neighbours of rare codes in the synthetic patients gain on test visits, as a share of what as many real "
    "patients gain; left of chance, what was generated is wrong. Whiskers: 95 % intervals."
)
