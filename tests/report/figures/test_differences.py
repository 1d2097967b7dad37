from __future__ import annotations

from adapcla.report.figures.differences import METRICS, tail_differences
from adapcla.study.results import Measured


def test_rows_with_intervals_and_rows_without_a_value():
    nothing = [None] * (len(METRICS) - 1)
    figure, caption = tail_differences(
        {"kept": [Measured(0.1, 0.0, 0.2, 3), *nothing], "gone": [None, *nothing]}, "adapcla"
    )
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["no value"]
    whisker = figure.axes[0].get_lines()[1]
    assert list(whisker.get_xdata()) == [0.0, 0.2]
    assert "at most 3" in caption and "adapcla" in caption
