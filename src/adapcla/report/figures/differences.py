"""What each row gains over one row in the tail: differences with intervals, one panel for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from adapcla.report.style import FAINT, PALETTE, panels
from adapcla.study.results import Measured

#: Metrics and strata of the panels.
METRICS = (
    ("tail_pair_seen", "rare20"),
    ("tail_ctx_jsd", "rare20"),
    ("tail_topk_jac", "rare20"),
    ("tail_pair_seen_heldout", "halves"),
)


def tail_differences(gains: Mapping[str, Sequence[Measured | None]], against: str) -> tuple[Figure, str]:
    """The gains of each row, one for each of `METRICS`, positive is better, and the caption."""
    with panels(1, len(METRICS), width=3.0, height=0.9 + 0.24 * len(gains)) as (figure, axes):
        for number, (axis, (metric, _)) in enumerate(zip(axes[0], METRICS, strict=True)):
            axis.axvline(0, color=FAINT, linewidth=0.9)
            for height, cells in enumerate(gains.values()):
                better = cells[number]
                if better is None:
                    axis.text(0, height, "  no value", fontsize=7, color=FAINT, va="center")
                    continue
                if better.low is not None and better.high is not None:
                    axis.plot([better.low, better.high], [height, height], color=PALETTE[0], linewidth=1)
                axis.plot(better.value, height, "o", color=PALETTE[0], markersize=4)
            axis.set_yticks(range(len(gains)), list(gains) if number == 0 else [""] * len(gains))
            axis.set_ylim(len(gains) - 0.5, -0.5)
            axis.set_title(metric)
            axis.set_xlabel("better by")
    seeds = max((cell.n for cells in gains.values() for cell in cells if cell is not None), default=0)
    caption = (
        f"Difference of each row to {against}, signed so that right is better; whiskers are 95 % intervals of Student "
        f"over paired fit seeds (at most {seeds})."
    )
    return figure, caption
