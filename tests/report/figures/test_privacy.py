from __future__ import annotations

from adapcla.report.figures.privacy import copy_excess, memory_against_tail, roc_curves
from adapcla.report.style import PALETTE
from adapcla.study.results import Measured


def test_the_legend_names_the_attack_and_its_area():
    curve = {"attack": "nearest", "auc": 0.512, "alarms": [0.0, 0.5, 1.0], "caught": [0.0, 0.6, 1.0]}
    figure, _ = roc_curves({"a": curve})
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "a: 0.512 (nearest)"


def test_an_excess_beyond_chance_has_another_colour():
    figure, _ = copy_excess({"clean": [(0.0, -0.1, 0.1)], "leak": [(0.3, 0.2, 0.4)], "unknown": [None]}, ["exact"])
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    colours = {float(dot.get_xdata()[0]): dot.get_color() for dot in dots}
    assert colours == {0.0: PALETTE[0], 0.3: PALETTE[1]}
    assert any(text.get_text() == "not assessed" for text in figure.axes[0].texts)


def test_every_row_is_a_point_and_real_patients_a_line():
    point = Measured(0.02, 0.01, 0.03, 1), Measured(0.1, 0.08, 0.12, 1)
    real, copies = Measured(0.3, None, None, 1), (Measured(0.6, None, None, 1), Measured(0.9, None, None, 1))
    figure, caption = memory_against_tail({"a": point, "b": point}, {"train copy": copies}, real, "known")
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["a", "b"]
    assert any(list(line.get_ydata()) == [0.3, 0.3] for line in axis.lines) and "95 %" in caption
    assert [text.get_text() for text in axis.texts] == ["train copy"] and axis.get_ylabel() == "known"
