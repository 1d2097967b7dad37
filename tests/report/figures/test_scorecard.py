from __future__ import annotations

from adapcla.report.figures.scorecard import tail_scorecard


def test_every_cell_shows_its_number_and_a_dash_where_there_is_none():
    figure, caption = tail_scorecard({"a": [0.5, None], "b": [1.4, -0.3]}, ["one", "two"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.50", "–", "1.40", "-0.30"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
    assert "real patients" in caption
