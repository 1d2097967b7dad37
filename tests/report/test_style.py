"""The one style: what it writes, and that it leaves no trace."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from adapcla.errors import UsageError
from adapcla.report import style


def drawn():
    with style.panels(1, 1) as (figure, axes):
        axes[0, 0].plot([1, 2], [3, 4], label="a line")
        axes[0, 0].set_title("A title")
    return figure


def test_a_pair_is_an_svg_with_text_and_a_png(tmp_path):
    svg, png = style.save_both(drawn(), tmp_path / "new" / "figure")
    assert svg.read_text(encoding="utf-8").count("A title") == 1
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("suffix", style.FORMATS)
def test_equal_figures_are_equal_files(suffix):
    assert style.image(drawn(), suffix) == style.image(drawn(), suffix)


@pytest.mark.parametrize("name", ["figure.jpeg", "figure", "figure.exe"])
def test_other_formats_are_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(UsageError, match="expected"):
        style.save_figure(drawn(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_style_ends_with_the_figure():
    before = dict(mpl.rcParams)
    style.image(drawn(), ".svg")
    assert dict(mpl.rcParams) == before


def luminance(colour: str) -> float:
    """Relative luminance by the Web Content Accessibility Guidelines."""
    channel = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_colours_can_be_seen_on_white_and_text_can_be_read():
    assert len(set(style.PALETTE)) == len(style.PALETTE)
    for colour in style.STRATUM_COLOURS.values():
        assert 1.05 / (luminance(colour) + 0.05) >= 3
    for colour in (style.INK, style.FAINT):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_numbers_on_an_axis_are_written_for_people():
    with style.panels() as (_, axes):
        style.thousands(axes[0, 0].yaxis)
    formatter = axes[0, 0].yaxis.get_major_formatter()
    assert (formatter(12000.0), formatter(1.0), formatter(0.5)) == ("12,000", "1", "0.5")


def test_bars_have_no_vertical_grid():
    with style.panels() as (_, axes):
        style.only_horizontal_grid(axes[0, 0])
        axes[0, 0].figure.draw_without_rendering()
    assert not any(line.get_visible() for line in axes[0, 0].get_xgridlines())
    assert any(line.get_visible() for line in axes[0, 0].get_ygridlines())
