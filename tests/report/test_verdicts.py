from __future__ import annotations

import pytest

from adapcla.metrics.evaluation import SUITES, metrics_of
from adapcla.report.study import Measured, Study
from adapcla.report.verdicts import (
    CANNOT_TELL,
    CLAIMS,
    HELD,
    NOT_HELD,
    Claim,
    decided,
    difference,
    not_assessed,
    paired,
    verdict,
    verdict_table,
    verdicts,
)


def test_lower_is_better_where_the_goal_is_down():
    """0.2 against 0.5 on a loss is a gain of 0.3; half-widths 0.03 and 0.04 make 0.05."""
    gain = difference(Measured(0.2, 0.17, 0.23, 1), Measured(0.5, 0.46, 0.54, 1), "down")
    assert gain.value == pytest.approx(0.3)
    assert (gain.low, gain.high) == (pytest.approx(0.25), pytest.approx(0.35))
    assert decided(gain) == HELD


def test_without_an_interval_nothing_is_decided():
    assert decided(difference(Measured(0.9, None, None, 1), Measured(0.1, 0.0, 0.2, 1), "up")) == CANNOT_TELL


@pytest.mark.parametrize(("low", "high", "told"), [(0.1, 0.2, HELD), (-0.2, -0.1, NOT_HELD), (0.0, 0.1, CANNOT_TELL)])
def test_the_interval_decides(low, high, told):
    assert decided(Measured((low + high) / 2, low, high, 3)) == told


def test_a_study_says_what_it_can_and_names_what_it_did_not_look_at(finished_run):
    study = Study.open(finished_run)
    found = verdicts(study)
    claims = [one.claim for one in found]
    assert any("same network and budget without it" in claim for claim in claims)
    assert any("nearer to the population “shifted”" in claim for claim in claims)
    assert any("does not copy rare training patients" in claim for claim in claims)
    assert all(one.verdict in (HELD, NOT_HELD, CANNOT_TELL) for one in found)
    unseen = not_assessed(study)
    assert any("needs halo" in claim for claim in unseen)
    assert len(unseen) + sum(1 for c in CLAIMS if {c.row, c.other} <= set(study.rows)) == len(CLAIMS)


def test_where_real_patients_are_to_be_matched_the_nearer_row_gains(finished_run):
    study = Study.open(finished_run)
    claim = Claim("nearer", "adapcla", "adapcla-no-scaffold", "next_visit_jaccard")
    found = verdict(study, claim)
    one, two, real = (
        study.measured(row, claim.metric).value for row in ("adapcla", "adapcla-no-scaffold", "real test")
    )
    assert float(found.ours) == pytest.approx(abs(two - real) - abs(one - real), abs=6e-4)
    assert "(real " in found.why


def test_the_verdict_is_the_last_column(finished_run):
    table = verdict_table(Study.open(finished_run))
    assert table.columns[-1] == "verdict"
    assert {line.cells[-1].text for line in table.lines} <= {HELD, NOT_HELD, CANNOT_TELL}


def test_fits_are_paired_by_seed_so_that_common_luck_drops_out():
    """Seeds differ by 0.5, rows by 0.01 on every seed: paired it is certain, unpaired nothing could be said."""
    one, two = {1: 0.11, 2: 0.61, 3: 0.31}, {1: 0.10, 2: 0.60, 3: 0.30}
    gain = paired(one, two, "up")
    assert decided(gain) == HELD and gain.n == 3
    assert decided(paired(one, two, "down")) == NOT_HELD
    assert paired({1: 0.1}, {1: 0.2}, "up") is None
    assert paired({1: 0.1, 2: 0.2}, {3: 0.2, 4: 0.1}, "up") is None


def test_every_claim_is_about_a_metric_that_exists() -> None:
    known = {metric.key for metric in metrics_of(list(SUITES))}
    assert {claim.metric for claim in CLAIMS} <= known
