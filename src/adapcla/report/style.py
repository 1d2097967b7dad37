"""The one look of all figures: light, thin lines, colours that colour-blind readers can tell apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adapcla import files
from adapcla.errors import UsageError

#: The palette of Okabe and Ito (2008) without its yellow, which is too faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK, FAINT, GRID = "#222222", "#6B6B6B", "#E3E3E3"
STRATUM_COLOURS = {"head": "#0072B2", "mid": "#009E73", "tail": "#D55E00"}
FORMATS = (".png", ".svg")
_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=PALETTE),
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "figure.dpi": 144,
    "savefig.dpi": 144,
    # Text stays text and element ids stay the same, so that equal figures are equal files.
    "svg.fonttype": "none",
    "svg.hashsalt": "adapcla",
}


@contextmanager
def panels(
    rows: int = 1, columns: int = 1, width: float = 4.2, height: float = 3.0
) -> Iterator[tuple[Figure, NDArray[Any]]]:
    """A figure with rows × columns panels of this size in inches and its axes, drawn in the project's style inside.

    >>> with panels(1, 2) as (figure, axes):
    ...     axes.shape
    (1, 2)
    """
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        figure.get_layout_engine().set(wspace=0.06, hspace=0.08)  # type: ignore[union-attr, call-arg]
        yield figure, np.asarray(figure.subplots(rows, columns, squeeze=False))


def thousands(axis: Any) -> None:
    """Write the numbers of an axis with thousands separators."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))


def only_horizontal_grid(axes: Axes) -> None:
    """Leave out the vertical grid lines, which say nothing behind bars."""
    axes.grid(visible=False, axis="x")


def image(figure: Figure, suffix: str) -> bytes:
    """The figure as a file of this format; equal figures give equal bytes."""
    if suffix not in FORMATS:
        raise UsageError(f"a figure as {suffix or 'a file without ending'!r}\nexpected: {' or '.join(FORMATS)}")
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format=suffix[1:], metadata=metadata)
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure as PNG or SVG, by the file's ending, whole or not at all."""
    target = Path(path)
    content = image(figure, target.suffix.lower())
    target.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(target, content)
    return target


def save_both(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write the figure as SVG and PNG beside each other; `stem` is the path without ending."""
    return save_figure(figure, f"{stem}.svg"), save_figure(figure, f"{stem}.png")
