"""The figure of the long tail says what the cohort says."""

from __future__ import annotations

import pytest

from adapcla.data import Cohort
from adapcla.report import style
from adapcla.report.figures.longtail import longtail


def test_the_curve_holds_every_code_once_most_frequent_first(tiny):
    """A and B in 3 visits, C and D in 1: from the rarest C, D, A, B, so the tail is C and the head is B."""
    lines = {line.get_label().split(":")[0]: line for line in longtail(tiny).axes[0].lines}
    assert lines["head"].get_xydata().tolist() == [[1, 3]]
    assert lines["mid"].get_xydata().tolist() == [[2, 3], [3, 1]]
    assert lines["tail"].get_xydata().tolist() == [[4, 1]]


def test_the_bars_are_shares_of_all(tiny):
    """Codes per visit 2, 1, 1, 3, 1 and visits per patient 2, 1, 2."""
    _, codes, visits = longtail(tiny).axes
    assert [bar.get_height() for bar in codes.patches] == pytest.approx([0.6, 0.2, 0.2])
    assert [bar.get_height() for bar in visits.patches] == pytest.approx([1 / 3, 2 / 3])


def test_what_lies_beyond_the_last_bar_is_gathered_and_said():
    long = Cohort.of([[[f"C{i}" for i in range(100)], ["C0"]]])
    axes = longtail(long).axes[1]
    assert "40 or more" in axes.get_xlabel()
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)


@pytest.mark.parametrize("patients", [[], [[["A"]]]], ids=["nobody", "one"])
def test_the_smallest_cohorts_can_be_drawn(patients):
    assert style.image(longtail(Cohort.of(patients)), ".svg")
