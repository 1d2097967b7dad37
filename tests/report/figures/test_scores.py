"""Figures of scores: what is drawn for which numbers."""

from __future__ import annotations

import pytest

from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.report.figures.scores import (
    NAMED,
    copy_excess,
    downstream_bars,
    memory_against_tail,
    reliability_diagrams,
    requested_against_achieved,
    roc_curves,
    schedule_curves,
    tail_knowledge,
)
from adapcla.report.style import PALETTE
from adapcla.scaffold import schedule
from adapcla.tables import Estimate


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
    point = Estimate(0.02, 0.01, 0.03, 1), Estimate(0.1, 0.08, 0.12, 1)
    real, copies = Estimate(0.3, None, None, 1), (Estimate(0.6, None, None, 1), Estimate(0.9, None, None, 1))
    figure, caption = memory_against_tail({"a": point, "b": point}, {"train copy": copies}, real, "known")
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["a", "b"]
    assert any(list(line.get_ydata()) == [0.3, 0.3] for line in axis.lines) and "95 %" in caption
    assert [text.get_text() for text in axis.texts] == ["train copy"] and axis.get_ylabel() == "known"


def test_every_row_and_reference_has_its_place():
    rows = {"gpt": Estimate(0.7, 0.6, 0.8, 3), "eva": None}
    figure, caption = tail_knowledge(rows, {"train copy": Estimate(0.9, None, None, 1)})
    (axis,) = figure.axes
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["gpt", "eva", "train copy"]
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [0.7, 0.9]
    assert [text.get_text().strip() for text in axis.texts].count("no value") == 1
    assert "share of what as many real patients gain" in caption


def test_a_panel_a_mode_and_a_point_a_code() -> None:
    source = Prevalence.of({"A": 0.2, "B": 0.1, "C": 0.3})
    target = Prevalence.of({"A": 0.4, "B": 0.0, "C": 0.1}).on(source.vocabulary)
    figure = requested_against_achieved(source, target, {"paper": source, "calibrated": target}, 500)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["paper", "calibrated"]
    points = figure.axes[1].collections[1].get_offsets()
    assert len(points) == 2  # B was asked never to come out and has no place on logarithmic axes


def test_the_curves_are_those_that_training_asks_for():
    figure, _ = schedule_curves(NAMED)
    for name, line in zip(NAMED, figure.axes[0].lines, strict=True):
        for progress, weight in zip(line.get_xdata()[::40], line.get_ydata()[::40], strict=True):
            assert weight == schedule(name).weight(float(progress))


def test_a_schedule_that_does_not_exist_is_refused():
    with pytest.raises(UsageError):
        schedule_curves(["sudden"])
