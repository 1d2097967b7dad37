"""The gate: which rule judges a line, and how a refusal reads."""

from __future__ import annotations

import pytest

from adapcla.errors import GateError
from adapcla.evaluation.comparison import Missing, Score
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.gate import LIMITS, GateLine, Limit, gate, judge, require

COPIES = Limit("copy_excess", "all", 0.0, 1e-4, True)
AREA = next(limit for limit in LIMITS if (limit.key, limit.stratum) == ("membership_auc", "all"))
GAP = Limit("unique_pair_gap", "all", 0.0, 0.01, False)


def test_limits_are_the_promised_ones() -> None:
    promised = {limit.key: limit.limit for limit in LIMITS}
    assert promised == {
        "copy_excess": 1e-4,
        "rare_copy_excess": 1e-4,
        "near_copy_excess": 0.01,
        "unique_pair_gap": 0.01,
        "membership_auc": 0.58,
        "attribute_residual": 0.09,
    }
    assert {limit.stratum for limit in LIMITS if limit.key == "membership_auc"} == {"all", "rare", "unique_pair"}
    assert all(METRICS[key].suite == "privacy" for limit in LIMITS for key in (limit.key, *limit.each))
    assert AREA.tries == 7


@pytest.mark.parametrize(
    ("limit", "score", "passed", "rule"),
    [
        # Many records and no copy: the bound is tight and kept; ten of 100,000 too many: it is not.
        (COPIES, Score(0.0, 100_000, -2e-5, 2e-5), True, "by the upper bound"),
        (COPIES, Score(1e-4, 100_000, 0.8e-4, 1.2e-4), False, "by the upper bound"),
        # 3,000 records: no bound could be that tight; no copy passes, twenty copies are a leak, one is chance.
        (COPIES, Score(0.0, 3000, -6.5e-4, 6.5e-4), True, "too few"),
        (COPIES, Score(20 / 3000, 3000, 0.0037, 0.0097), False, "too few"),
        (COPIES, Score(1 / 3000, 3000, -0.0006, 0.0012), True, "too few"),
        # The area: 0.55 with a bound below 0.58 passes, with a bound above it does not; few patients need proof.
        (AREA, Score(0.55, 9000, 0.54, 0.56), True, "by the upper bound"),
        (AREA, Score(0.57, 3000, 0.55, 0.59), False, "by the upper bound"),
        (AREA, Score(0.60, 200, 0.52, 0.68), True, "too few"),
        (AREA, Score(0.70, 200, 0.62, 0.78), False, "too few"),
        # The gap is held by its value, once it is beyond chance.
        (GAP, Score(0.009, 9000, 0.007, 0.011), True, "by the value"),
        (GAP, Score(0.012, 9000, 0.010, 0.014), False, "by the value"),
        (GAP, Score(0.03, 90, -0.03, 0.09), True, "by the value"),
    ],
)
def test_rules(limit: Limit, score: Score, passed: bool, rule: str) -> None:
    line = judge(score, limit)
    assert line.passed is passed
    assert line.note.startswith(rule)
    assert line.upper == score.high


def test_a_leak_that_one_attack_shows_is_not_hidden_by_a_stronger_and_less_certain_one() -> None:
    """0.62 may be chance, with an error of 0.036; 0.60 with an error of 0.025 lies four errors above one half."""
    strongest, certain = Score(0.62, 400, 0.55, 0.69, "strongest attack: shadow"), Score(0.60, 400, 0.551, 0.649)
    scores = {"membership_auc": {"rare": strongest}, "membership_shadow_auc": {"rare": strongest}}
    of_rare = [limit for limit in LIMITS if limit.name == "membership_auc [rare]"]
    assert gate(scores, of_rare)[0].passed
    (failed,) = gate({**scores, "membership_rare_codes_auc": {"rare": certain}}, of_rare)
    assert not failed.passed
    assert failed.name == "membership_auc [rare]"
    assert (failed.value, failed.note.rpartition("; ")[2]) == (0.60, "shown by membership_rare_codes_auc")


def test_what_cannot_be_assessed_does_not_pass_and_says_why() -> None:
    line = judge(Missing("insufficient data: 3 members").score, AREA)
    assert not line.passed and line.value is None
    assert str(line) == "not assessed  membership_auc: insufficient data: 3 members"


def test_the_refusal_names_the_failed_lines_only() -> None:
    bad = GateLine("copy_excess", 0.5, 0.6, 1e-4, False)
    good = GateLine("membership_auc", 0.5, 0.52, 0.58, True)
    require([good])
    with pytest.raises(GateError) as caught:
        require([good, bad])
    assert caught.value.exit_code == 5
    assert (
        str(caught.value)
        == "privacy gate: 1 of 2 lines failed\nFAILED  copy_excess: 0.5 (upper bound 0.6), limit 0.0001"
    )


def test_a_score_without_an_interval_is_judged_by_its_value() -> None:
    assert not judge(Score(0.7, 100), AREA).passed
    assert judge(Score(0.51, 100), AREA).passed
