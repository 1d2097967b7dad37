"""What minutes buy."""

from __future__ import annotations

import re

import pytest

from adapcla.generation.fitting import Pace
from adapcla.pipeline.effort import MOST_JUDGED, Speed, around, effort_for, settings_of
from adapcla.pipeline.estimate import Sizes

SMALL, LARGE = Sizes(2_000, 5_000, 400), Sizes(600_000, 2_000_000, 3_000)
#: Training patients of a table of a million.
MILLION = Sizes(570_000, 1_047_869, 3_000, 11.5)


@pytest.mark.parametrize(
    ("sizes", "minutes"), [(SMALL, 2), (SMALL, 5), (SMALL, 120), (MILLION, 120), (LARGE, 120), (LARGE, 300)]
)
def test_what_is_chosen_fits(sizes, minutes):
    found = effort_for(minutes, "tailwise", {}, sizes)
    rest = sum(around(sizes, 0, ("csv",)))
    assert found.training + found.sampling + found.judging + rest <= 60 * minutes
    assert 0 < found.settings["passes"] <= found.wanted_passes


def test_judging_in_full_never_takes_the_time_that_training_needs():
    """Drawing as many patients takes most of an hour here: what is left goes to training, and judging is quick."""
    found = effort_for(60, "tailwise", {}, LARGE)
    assert found.quick and found.sampling > 1_800


def test_more_minutes_never_choose_less():
    passes = [effort_for(minutes, "tailwise", {}, LARGE).settings["passes"] for minutes in (5, 20, 60, 240)]
    assert passes == sorted(passes) and passes[0] < passes[-1]


def test_a_plan_that_cannot_converge_says_how_long_it_would_take():
    short = effort_for(3, "tailwise", {}, SMALL._replace(patients=20_000, visits=50_000))
    minutes = int(re.search(r"--minutes (\d+)", short.shortened).group(1))
    whole = effort_for(minutes, "tailwise", {}, SMALL._replace(patients=20_000, visits=50_000))
    assert whole.shortened == "" and whole.settings["passes"] == short.wanted_passes


def test_a_method_that_counts_has_no_epochs_to_leave_out():
    assert effort_for(0.1, "marginal", {}, LARGE).shortened == ""


def test_a_slow_machine_trains_for_fewer_epochs_and_says_more_minutes():
    fast, slow = (effort_for(10, "tailwise", {}, SMALL, measured=Speed(Pace(1.0, each), 1.0)) for each in (0.1, 60.0))
    assert fast.settings["passes"] == fast.wanted_passes and not fast.shortened
    assert slow.settings["passes"] < fast.settings["passes"] and slow.minutes > 10


def test_what_was_given_stays():
    found = effort_for(1, "tailwise", {"width": 256, "passes": 7}, LARGE)
    assert (found.settings["width"], found.settings["passes"]) == (256, 7)


def test_a_method_takes_the_settings_that_it_knows():
    assert settings_of("lstm", {"width": 32, "layers": 1, "heads": 2}).architecture.width == 32


def test_equal_arguments_choose_equally():
    assert effort_for(3, "tailwise", {}, SMALL) == effort_for(3, "tailwise", {}, SMALL)


def test_attack_models_take_from_the_time_for_training():
    """Four attack models on two thirds of the patients cost more than twice what training does."""
    sizes = Sizes(40_000, 60_000, 1_000)
    alone, attacked = (effort_for(8, "tailwise", {}, sizes, attack_models=n) for n in (0, 4))
    assert attacked.training < alone.training and attacked.judging > alone.judging
    assert attacked.training + attacked.sampling + attacked.judging <= 60 * 8


def test_judging_grows_slowly_beyond_the_patients_that_are_looked_at():
    some, ten_times = (effort_for(9_999, "tailwise", {}, Sizes(n, 2 * n, 500)) for n in (MOST_JUDGED, 10 * MOST_JUDGED))
    assert some.judging < ten_times.judging < 5 * some.judging


def test_more_codes_and_formats_take_longer():
    few, many = (effort_for(9_999, "tailwise", {}, Sizes(5_000, 9_000, codes)).sampling for codes in (300, 3_000))
    assert few < many
    assert around(SMALL, 0, ("csv",)).writing < around(SMALL, 0, ("csv", "fhir")).writing


def test_calibration_is_part_of_the_fit():
    """However short the time is, all rounds are done."""
    assert "calibration_rounds" not in effort_for(1, "tailwise", {}, SMALL).settings
    none = effort_for(60, "tailwise", {"calibration_rounds": 0}, SMALL)
    assert none.training < effort_for(60, "tailwise", {}, SMALL).training
