"""The glance at who knows the tail: every row has its place, with or without a likelihood."""

from __future__ import annotations

from adapcla.report.figures.knowledge import Known, tail_knowledge
from adapcla.study.results import Measured


def test_rows_without_a_likelihood_and_references_take_part():
    number = Measured(0.7, 0.6, 0.8, 3)
    rows = {"gpt": Known(number, Measured(0.99, None, None, 3), number), "eva": Known(None, None, number)}
    figure, caption = tail_knowledge(rows, {"train copy": Known(None, None, Measured(0.9, None, None, 1))})
    swap, share = figure.axes
    assert [tick.get_text() for tick in swap.get_yticklabels()] == ["gpt", "eva", "train copy"]
    dots = [line for line in share.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [0.7, 0.7, 0.9]
    words = [text.get_text() for text in swap.texts]
    assert words.count("no likelihood") == 1
    assert "memory" in caption


def test_nothing_known_is_an_empty_picture_and_no_error():
    figure, _ = tail_knowledge({"a": Known(None, None, None)})
    assert len(figure.axes) == 2
