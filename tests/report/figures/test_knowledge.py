"""The glance at who knows the tail: every row has its place."""

from __future__ import annotations

from adapcla.report.figures.knowledge import tail_knowledge
from adapcla.study.results import Measured


def test_every_row_and_reference_has_its_place():
    rows = {"gpt": Measured(0.7, 0.6, 0.8, 3), "eva": None}
    figure, caption = tail_knowledge(rows, {"train copy": Measured(0.9, None, None, 1)})
    (axis,) = figure.axes
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["gpt", "eva", "train copy"]
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [0.7, 0.9]
    assert [text.get_text().strip() for text in axis.texts].count("no value") == 1
    assert "share of what as many real patients gain" in caption
