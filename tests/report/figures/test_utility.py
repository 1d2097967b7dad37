from __future__ import annotations

from adapcla.report.figures.utility import downstream_bars, reliability_diagrams


def test_bars_have_their_height_and_the_ceiling_its_line():
    figure, _ = downstream_bars(
        {"a": [(0.5, 0.4, 0.6), None], "b": [(0.7, None, None), (0.2, 0.1, 0.3)]}, ["x", "y"], [0.9, None]
    )
    axis = figure.axes[0]
    assert sorted(bar.get_height() for bar in axis.patches) == [0.2, 0.5, 0.7]
    assert [0.9, 0.9] in [list(line.get_ydata()) for line in axis.lines]


def test_empty_bins_are_left_out_of_the_diagram():
    bins = {"probability": [0.1, None, 0.9], "observed": [0.2, None, 0.8], "n": [10.0, 0.0, 30.0]}
    figure, caption = reliability_diagrams({"a": {"all": bins}})
    overall, tail = figure.axes
    assert overall.lines[1].get_xdata().tolist() == [0.1, 0.9]
    assert len(tail.lines) == 1 and "fifteen" in caption.lower()
