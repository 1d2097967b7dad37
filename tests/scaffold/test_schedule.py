"""The weight of the scaffold over training: ends, shape, and names that read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.errors import UsageError
from adapcla.scaffold import Ramp, schedule
from adapcla.scaffold.schedule import SCHEDULES, Constant, Cosine

progress = st.floats(0, 1)
ramps = st.tuples(progress, progress).map(sorted).map(lambda pair: Ramp(*pair))
every = st.one_of(st.sampled_from(SCHEDULES).map(schedule), ramps)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("base", {0: 1, 0.3: 1, 0.5: 0.5, 0.7: 0, 1: 0}),
        ("fast", {0: 1, 0.1: 1, 0.3: 0.5, 0.5: 0, 1: 0}),
        ("slow", {0: 1, 0.5: 1, 0.7: 0.5, 0.9: 0, 1: 0}),
        ("linear", {0: 1, 0.25: 0.75, 1: 0}),
        ("cosine", {0: 1, 0.5: 0.5, 1: 0}),
        ("constant", {0: 1, 0.5: 1, 1: 1}),
        ("none", {0: 0, 0.5: 0, 1: 0}),
        ("ramp:0.2,0.4", {0.2: 1, 0.3: 0.5, 0.4: 0}),
    ],
)
def test_weights_by_hand(name, points):
    assert {p: schedule(name).weight(p) for p in points} == points


def test_cosine_at_a_third():
    """½(1 + cos 60°) = 0.75."""
    assert Cosine().weight(1 / 3) == pytest.approx(0.75, abs=1e-9)


@given(every, progress, progress)
def test_the_weight_never_rises(found, one, two):
    early, late = sorted((one, two))
    assert 0 <= found.weight(late) <= found.weight(early) <= 1


@given(ramps)
def test_a_ramp_holds_and_releases(ramp):
    assert ramp.weight(ramp.hold) == 1
    assert ramp.weight(1.0) == 0 or ramp.hold == 1
    assert ramp.weight(ramp.release) == 0 or ramp.hold == ramp.release


@given(every)
def test_names_read_back(found):
    assert schedule(found.name) == found


@given(st.floats(0, 1))
def test_constant_levels_read_back(level):
    assert schedule(Constant(level).name) == Constant(level)


@pytest.mark.parametrize("name", SCHEDULES)
def test_known_names_stay_short(name):
    assert schedule(name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Base",
        "ramp",
        "ramp:0.1",
        "ramp:0.7,0.3",
        "ramp:-1,0.5",
        "ramp:0,2",
        "ramp:1.2.3,1",
        "ramp:nan,1",
        "ramp:0,1,1",
        "constant:x",
        "base:1",
    ],
)
def test_other_names_are_wrong_usage(name):
    with pytest.raises(UsageError):
        schedule(name)


@pytest.mark.parametrize("level", [-0.1, float("nan"), float("inf")])
def test_an_impossible_level_is_wrong_usage(level):
    with pytest.raises(UsageError):
        Constant(level)
