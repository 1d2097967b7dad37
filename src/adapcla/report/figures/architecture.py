"""The method in one picture: what is learned, what is added while learning, and what is left when sampling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from adapcla.report.style import FAINT, INK, PALETTE, panels
from adapcla.scaffold import schedule

_BLUE, _ORANGE, _GREEN = PALETTE[0], PALETTE[1], PALETTE[2]


class _Box(NamedTuple):
    """A box: centre, size, words, colour."""

    x: float
    y: float
    width: float
    height: float
    text: str
    colour: str


_BOXES = {
    "visits": _Box(1.1, 2.6, 1.9, 1.0, "visits 1 … t−1\n(sets of codes)", FAINT),
    "embed": _Box(3.5, 2.6, 1.9, 1.0, "visit embedding\nΣ of its codes", _BLUE),
    "trunk": _Box(5.9, 2.6, 1.9, 1.0, "causal Transformer\nover visits", _BLUE),
    "head": _Box(8.3, 2.6, 1.9, 1.0, "head\nz = W H + b", _BLUE),
    "counts": _Box(1.1, 5.2, 1.9, 0.9, "training prevalence\nof each code", FAINT),
    "bias": _Box(5.9, 5.2, 2.6, 0.9, "rarity bias\nb = log((1 − π) / π)", _ORANGE),
    "loss": _Box(11.3, 5.2, 2.4, 0.9, "training loss of\nz + α · b", _ORANGE),
    "draw": _Box(11.3, 2.6, 2.4, 1.0, "sampling: z alone,\none coin per code", _GREEN),
    "shift": _Box(8.3, 0.5, 3.4, 0.8, "steering: λ (logit target − logit π)", _GREEN),
    "end": _Box(11.3, 0.5, 2.1, 0.8, "does the record\ngo on?", _GREEN),
}
_ARROWS = (
    ("visits", "embed"), ("embed", "trunk"), ("trunk", "head"), ("head", "draw"), ("counts", "bias"), ("bias", "loss"),
    ("head", "loss"), ("shift", "draw"), ("end", "draw"),
)  # fmt: skip


def architecture() -> tuple[Figure, str]:
    """The picture of the method, and its caption.

    >>> len(architecture()[0].axes[0].patches)
    10
    """
    with panels(1, 1, width=10.4, height=5.0) as (figure, axes):
        axis = axes[0, 0]
        axis.set(xlim=(0, 12.7), ylim=(-0.1, 6.3))
        axis.set_axis_off()
        for box in _BOXES.values():
            _draw(axis, box)
        for one, two in _ARROWS:
            _arrow(axis, _BOXES[one], _BOXES[two])
        axis.text(0.15, 5.95, "only while training", color=_ORANGE, fontsize=9, weight="bold")
        axis.text(0.15, 3.45, "learned", color=_BLUE, fontsize=9, weight="bold")
        axis.text(0.15, 0.9, "only when sampling", color=_GREEN, fontsize=9, weight="bold")
        _weight(axis)
    caption = (
        "History goes through a causal Transformer to one logit per code. While training, a bias that is large for "
        "rare codes is added with a weight α that falls from one to zero; what is sampled has no bias. Steering adds "
        "the difference of two prevalences on the scale of log-odds, without training."
    )
    return figure, caption


def _draw(axis: Axes, box: _Box) -> None:
    """A rounded box with its words."""
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    shape = "round,pad=0.02,rounding_size=0.12"
    axis.add_patch(
        FancyBboxPatch(corner, box.width, box.height, boxstyle=shape, facecolor="white", edgecolor=box.colour, lw=1.6)
    )
    axis.text(box.x, box.y, box.text, ha="center", va="center", fontsize=8.5, color=INK)


def _arrow(axis: Axes, one: _Box, two: _Box) -> None:
    """An arrow from the edge of one box to the edge of another."""
    if abs(one.y - two.y) < 0.1:
        start, end = (one.x + one.width / 2, one.y), (two.x - two.width / 2, two.y)
    else:
        up = 1 if two.y > one.y else -1
        start, end = (one.x, one.y + up * one.height / 2), (two.x, two.y - up * two.height / 2)
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.1, "shrinkA": 3, "shrinkB": 3})


def _weight(axis: Axes) -> None:
    """The weight of the bias over training, drawn small between bias and loss."""
    small = axis.inset_axes((0.635, 0.86, 0.13, 0.13))
    progress = np.linspace(0, 1, 101)
    small.plot(progress, [schedule("base").weight(float(p)) for p in progress], color=_ORANGE)
    small.set(xticks=[], yticks=[0, 1], ylim=(-0.1, 1.2))
    small.set_title("α over training", fontsize=7.5, pad=2, weight="normal", loc="center")
    small.tick_params(labelsize=7)
    small.grid(visible=False)
