"""The weight of the scaffold over training, drawn from the very schedules that the training loop asks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from adapcla.report.style import PALETTE, panels
from adapcla.scaffold import schedule

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
        "a ramp of any width can be asked for."
    )
    return figure, caption
