"""The figure shows every code that was asked for, in each mode."""

from __future__ import annotations

from adapcla.data import Prevalence
from adapcla.report.figures.steering import requested_against_achieved


def test_a_panel_a_mode_and_a_point_a_code() -> None:
    source = Prevalence.of({"A": 0.2, "B": 0.1, "C": 0.3})
    target = Prevalence.of({"A": 0.4, "B": 0.0, "C": 0.1}).on(source.vocabulary)
    figure = requested_against_achieved(source, target, {"paper": source, "calibrated": target}, 500)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["paper", "calibrated"]
    points = figure.axes[1].collections[1].get_offsets()
    assert len(points) == 2  # B was asked never to come out and has no place on logarithmic axes
