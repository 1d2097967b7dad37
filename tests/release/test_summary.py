"""Lamps: the light of each follows from its number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapcla.data import Cohort
from adapcla.evaluation import Scores
from adapcla.evaluation.privacy import GateLine
from adapcla.evaluation.scores import Row
from adapcla.release.summary import Attempt, Release, lamps, likeness, usefulness

ROLLED = {
    "codes": {"before": 4, "after": 2, "kept in full": 1, "rolled up": 2, "not placed": 1},
    "entries": {"all": 60, "kept in full": 30, "rolled up": 25, "not placed": 5},
    "tail": {"codes": 2, "kept in full": 0, "entries": 30, "entries kept in full": 0},
    "steps": [2],
}
KEPT = GateLine("copy_excess", "met", 0.0, -0.001, 0.001, 0.01)
UNCLEAR = GateLine("pair_holder_gap", "not shown", 0.03, -0.01, 0.07, 0.05)


def attempt(*rows: Row, lines: tuple[GateLine, ...] = (KEPT,), real: Scores | None = None) -> Attempt:
    scores = Scores("tailwise", 1, rows, {"quick": True})
    return Attempt(
        1, "as asked", 11, scores, real, lines, (), ROLLED, 3, {"passes": 4, "steps": 9}, {}, 4.0, {"fit": 2.0}
    )


def like(value: float | None, way: float | None) -> Row:
    return Row("pair_seen_heldout", "tail", "up", "halves", value, None, None, 9, "", 0.8, 1.0, 0.2, way)


def useful(value: float, real: float | None, metric: str = "tstr_next_auroc") -> Row:
    return Row(metric, "utility", "up", "all", value, None, None, 9, "", real_train=real)


def release(tried: Attempt) -> Release:
    cohort = Cohort.of([[["4019"], ["25000"]]] * 20)
    return Release("A ward", {}, "table", "tailwise", 5.0, (tried,), cohort, cohort)


@pytest.mark.parametrize(("way", "light"), [(0.95, "green"), (0.6, "amber"), (0.2, "red"), (1.7, "green")])
def test_like_real(way, light):
    lamp = lamps(release(attempt(like(0.5, way))))[0]
    assert lamp.light == light and lamp.value == f"{min(way, 1):.0%}"


def test_like_real_says_what_is_least_and_what_helps():
    shown = lamps(release(attempt(like(0.5, 0.2))))[0].sentence
    assert "least: codes of one visit are seen together in other real patients (20%)" in shown
    assert "What helps: more real patients." in shown
    short = replace(attempt(like(0.5, 0.2)), wanted_passes=40.0)
    assert "more minutes" in lamps(release(short))[0].sentence
    assert "What helps" not in lamps(release(attempt(like(0.5, 0.9))))[0].sentence


@pytest.mark.parametrize(("low", "way"), [(0.5, 0.4), (0.25, None)])
def test_chance_and_real_whose_intervals_overlap_do_not_count(low, way):
    """Chance is 0.2 up to 0.3; real patients are 0.8, from `low` on."""
    ends = {"marginal_low": 0.1, "marginal_high": 0.3, "real_test_low": low, "real_test_high": 0.9}
    line = likeness(attempt(replace(like(0.5, 0.4), **ends)).scores)[0]
    assert line.way == way and bool(line.why) == (way is None)


def test_nothing_is_said_where_nothing_can_be():
    shown = lamps(release(attempt(like(0.5, None))))
    assert [lamp.light for lamp in shown[:2]] == ["off", "off"] and shown[0].value == "–"


def test_useful_is_what_models_reach_beside_those_of_real_patients():
    """From guessing (0.5) to real (0.7), 0.68 is nine tenths of the way."""
    lamp = lamps(release(attempt(useful(0.68, 0.7))))[1]
    assert (lamp.light, lamp.value, lamp.unit) == ("green", "0.68", "beside 0.70")
    assert lamps(release(attempt(useful(0.55, 0.7))))[1].light == "red"


def test_real_models_that_only_guess_say_nothing_and_the_next_task_speaks():
    rows = (useful(0.6, 0.51), useful(0.8, 0.9, "tstr_masked_auroc"))
    assert lamps(release(attempt(*rows)))[1].value == "0.80"


def test_models_of_real_patients_may_be_judged_apart():
    real = Scores("real", 1, (useful(0.7, None),))
    assert usefulness(attempt(useful(0.6, None), real=real))[0].real == 0.7


@pytest.mark.parametrize(
    ("lines", "light", "word"),
    [
        ((KEPT,), "green", "Every privacy limit"),
        ((KEPT, GateLine("near_copy_excess", "not shown", None, None, None, 0.03, "few")), "red", "is not shown"),
        ((KEPT, UNCLEAR), "red", "1 of 2 privacy limits is not shown"),
        ((KEPT, replace(UNCLEAR, accepted="for partners")), "amber", "somebody accepted"),
        ((KEPT, GateLine("near_copy_excess", "exceeded", 0.2, 0.1, 0.3, 0.03)), "red", "is exceeded"),
    ],
)
def test_safe_is_the_gate(lines, light, word):
    told = release(attempt(lines=lines))
    lamp = lamps(told)[2]
    assert lamp.light == light and word in lamp.sentence and told.passed == (light != "red")


def test_the_model_needs_lines_of_its_own():
    from dataclasses import replace

    tried = attempt()
    assert not release(tried).model_passed
    assert release(replace(tried, model_lines=(KEPT,))).model_passed


def test_equal_numbers_of_patients_are_compared_where_they_are():
    plain = Row("pair_seen_heldout", "tail", "up", "all", 0.9, None, None, 9, "")
    assert likeness(Scores("x", 1, (plain, like(0.5, 0.7))))[0].synthetic == 0.5
