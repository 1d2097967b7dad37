"""What minutes buy."""

from __future__ import annotations

import pytest

from adapcla.experiment.effort import effort_for, settings_of
from adapcla.experiment.estimate import Sizes

SMALL, LARGE = Sizes(2_000, 5_000, 400), Sizes(600_000, 2_000_000, 3_000)


@pytest.mark.parametrize(
    ("sizes", "minutes"), [(SMALL, 2), (SMALL, 5), (SMALL, 120), (LARGE, 40), (LARGE, 60), (LARGE, 300)]
)
def test_what_is_chosen_fits(sizes, minutes):
    found = effort_for(minutes, "tailwise", {}, sizes)
    assert found.training + found.sampling + found.judging <= 60 * minutes
    assert 0 < found.settings["passes"] <= found.wanted_passes


def test_more_minutes_never_choose_less():
    found = [effort_for(minutes, "tailwise", {}, LARGE) for minutes in (5, 20, 60, 240)]
    work = [each.settings["passes"] * each.settings["width"] ** 2 for each in found]
    assert work == sorted(work) and work[0] < work[-1]


def test_what_was_given_stays():
    found = effort_for(1, "tailwise", {"width": 256, "passes": 7}, LARGE)
    assert (found.settings["width"], found.settings["passes"]) == (256, 7)


def test_a_method_takes_the_settings_that_it_knows():
    assert settings_of("lstm", {"width": 32, "layers": 1, "heads": 2}).architecture.width == 32


def test_equal_arguments_choose_equally():
    assert effort_for(3, "tailwise", {}, SMALL) == effort_for(3, "tailwise", {}, SMALL)
