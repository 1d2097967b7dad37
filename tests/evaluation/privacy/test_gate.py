"""The gate by interval: met, not shown, exceeded; it fails closed and says what so many patients can show."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from adapcla.errors import GateError, UsageError
from adapcla.evaluation.comparison import Comparison, Missing, Score
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy import LIMITS, Limit, accept, detectable, gate, require, require_known
from adapcla.evaluation.privacy.gate import decide, error_of, reach
from adapcla.evaluation.privacy.groups import NOBODY
from adapcla.io.simulator import simulate

LINE = Limit("copy_excess", "all", 0.0, 0.01)
PAIRS = Limit("pair_holder_gap", "all", 0.0, 0.05, parts=("1", "2"), limit_of_parts=0.10)
ATTACKS = Limit("membership_auc", "all", 0.5, 0.58, highest_of=("one", "other"))


def score(value: float, error: float) -> Score:
    return Score(value, 1000, value - 1.96 * error, value + 1.96 * error)


@pytest.mark.parametrize(
    ("value", "error", "outcome"),
    [
        (0.0, 0.002, "met"),
        (0.002, 0.006, "not shown"),
        (0.0, 0.02, "not shown"),
        (0.012, 0.003, "not shown"),
        (0.03, 0.003, "exceeded"),
    ],
)
def test_an_outcome_follows_from_the_interval_and_not_from_the_value(value, error, outcome):
    """Five of seven lines of a demonstration had their upper bound above the limit and were called kept."""
    assert decide({"copy_excess": {"all": score(value, error)}}, LINE).outcome == outcome


def test_more_lines_and_more_tries_ask_for_more_certainty():
    scores = {"copy_excess": {"all": score(0.0, 0.0055)}}
    assert decide(scores, LINE, 1).outcome == "met"
    assert decide(scores, LINE, 12).outcome == "not shown"
    assert reach(48) > reach(12) > reach(1) == pytest.approx(1.645, abs=1e-3)


def test_no_number_of_holders_may_be_shown_above_its_limit_though_the_mean_keeps_it():
    fine = {"all": score(0.01, 0.005), "1": score(0.005, 0.01), "2": score(0.09, 0.05)}
    assert decide({"pair_holder_gap": fine}, PAIRS).outcome == "met"
    line = decide({"pair_holder_gap": {**fine, "2": score(0.20, 0.02)}}, PAIRS)
    assert line.outcome == "exceeded" and "shown by 2" in line.note
    assert line.evidence["pair_holder_gap [1]"][0] == 0.005


def test_of_several_attacks_the_least_certain_one_must_keep_the_limit_too():
    best = {"all": score(0.52, 0.01)}
    fine = {"membership_auc": best, "one": best, "other": {"all": score(0.5, 0.01)}}
    assert decide(fine, ATTACKS).outcome == "met"
    line = decide({**fine, "other": {"all": score(0.51, 0.08)}}, ATTACKS)
    assert line.outcome == "not shown" and line.upper is not None and line.upper > 0.58
    assert decide({"membership_auc": best, "one": best}, ATTACKS).outcome == "not shown"


def test_what_could_not_be_assessed_is_not_met_and_what_concerns_nobody_is():
    for reason, outcome in (("insufficient data: 12 members", "not shown"), (f"{NOBODY}: no such record", "met")):
        line = decide({"copy_excess": {"all": Missing(reason, 7).score}}, LINE)
        assert line.outcome == outcome and line.note == reason and line.n == 7
    assert decide({}, LINE).note == "not among the scores"


def test_a_line_not_shown_can_be_accepted_with_a_reason_and_one_exceeded_cannot():
    scores = {"copy_excess": {"all": score(0.002, 0.006)}, "near_copy_excess": {"all": score(0.5, 0.01)}}
    limits = (LINE, LINE._replace(key="near_copy_excess"))
    lines = accept(gate(scores, limits), ["copy_excess", "near_copy_excess"], "partners under agreement")
    assert [line.passed for line in lines] == [True, False]
    with pytest.raises(GateError, match="exceeded  near_copy_excess") as refusal:
        require(lines)
    assert "copy_excess: 0.002" not in str(refusal.value) and refusal.value.exit_code == 5
    with pytest.raises(UsageError, match="--reason"):
        require_known(["copy_excess"], " ")
    with pytest.raises(UsageError, match="did you mean"):
        require_known(["copy_exces"], "why")


@pytest.fixture(scope="module")
def parts():
    everybody = simulate(patients=4_200, codes=100, seed=3)
    edges = (0, 1_600, 2_200, 2_600, 4_200)
    return [everybody.subset(np.arange(a, b)) for a, b in pairwise(edges)]


def test_what_patients_can_show_is_known_before_training(parts):
    train, control, valid, _ = parts
    many = detectable(train, control, valid)
    few = detectable(train.subset(range(120)), control.subset(range(55)), valid)
    assert set(many) == {limit.name for limit in LIMITS}
    assert many["near_copy_excess"].shown and many["value_attack"].shown
    assert not few["membership_auc"].shown and few["membership_auc"].half_width > 0.08
    assert sum(each.shown for each in many.values()) > sum(each.shown for each in few.values())
    assert not detectable(train, control, valid, tries=10**9)["membership_auc"].shown


def test_intervals_before_training_are_those_of_a_release_as_large_as_training(parts):
    """400 validation patients in the place of 1,600 write less: steps of one patient came out a third too narrow."""
    train, control, valid, fresh = parts
    comparison = Comparison.of(train, control, fresh, control)
    for name, planned in detectable(train, control, valid).items():
        if planned.half_width is not None and "[" not in name:
            true = reach(len(LIMITS) - 1) * error_of(METRICS[name].compute(comparison)["all"])
            assert planned.half_width == pytest.approx(true, rel=0.3), name
