from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from adapcla.metrics import Reference
from adapcla.report.claims import CLAIMS, Claim
from adapcla.report.study import Measured, Study
from adapcla.report.verdicts import (
    CANNOT_TELL,
    COPIES,
    HELD,
    NOT_HELD,
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
        study.measured(row, claim.metric).value for row in ("adapcla", "adapcla-no-scaffold", Reference.REAL_TEST)
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


def study_of(rows: dict[str, dict[str, list[float | None]]]) -> Study:
    """A study from row → metric → the value of each fit seed."""
    lines = [
        {"row": row, "metric": metric, "stratum": "rare20", "goal": GOALS[metric], "fit": fit, "value": value}
        for row, metrics in rows.items()
        for metric, values in metrics.items()
        for fit, value in enumerate(values, 1)
    ]
    empty = dict.fromkeys(("low", "high", "real_test", "train_copy", "marginal"), pl.Float64)
    study = Study(Path(), {"fits": [{"row": row, "toward": []} for row in rows]})
    scores = pl.DataFrame(lines, schema_overrides={"value": pl.Float64}).with_columns(
        pl.lit(None, kind).alias(name) for name, kind in empty.items()
    )
    vars(study).update(scores=scores, steered=pl.DataFrame())
    return study


GOALS = {"tail_pair_seen": "up", "tail_ctx_jsd": "down", "tail_topk_jac": "up"}
GOOD = dict(zip(GOALS, ([0.50, 0.52, 0.51], [0.30, 0.31, 0.30], [0.40, 0.42, 0.41]), strict=True))
POOR = dict(zip(GOALS, ([0.10, 0.11, 0.12], [0.60, 0.62, 0.61], [0.10, 0.12, 0.10]), strict=True))
NOISY = dict(zip(GOALS, ([0.10, 0.90, 0.51], [0.60, 0.02, 0.30], [0.10, 0.72, 0.41]), strict=True))


@pytest.mark.parametrize(
    ("ours", "theirs", "ruling"), [(GOOD, POOR, HELD), (POOR, GOOD, NOT_HELD), (GOOD, NOISY, CANNOT_TELL)]
)
def test_an_ablation_is_judged_metric_by_metric_like_every_claim(ours, theirs, ruling):
    found = verdicts(study_of({"adapcla": ours, "adapcla-permuted": theirs}))
    assert [one.verdict for one in found] == [ruling] * 3
    assert all("3 fit seeds, paired" in one.why for one in found)


def test_one_fit_without_an_interval_decides_nothing():
    one, two = ({metric: values[:1] for metric, values in row.items()} for row in (GOOD, POOR))
    found = verdicts(study_of({"adapcla": one, "adapcla-permuted": two}))
    assert {one.verdict for one in found} == {CANNOT_TELL}


def test_a_row_that_wrote_no_tail_pair_has_lost_the_tail():
    gone = dict(zip(GOALS, ([None] * 3, [None] * 3, [0.0] * 3), strict=True))
    found = verdicts(study_of({"adapcla": GOOD, "static-pcla-train-only": gone}))
    assert [one.verdict for one in found] == [HELD] * 3
    assert sum("wrote no tail pair" in one.why for one in found) == 2
    turned = verdicts(study_of({"adapcla": gone, "static-pcla-train-only": GOOD}))
    assert [one.verdict for one in turned] == [NOT_HELD] * 3


def test_a_row_with_one_tail_pair_in_some_fit_has_not_lost_it():
    sparse = {"tail_pair_seen": [None, None, 0.2], "tail_ctx_jsd": [None] * 3}
    found = verdicts(study_of({"adapcla": GOOD, "static-pcla-train-only": sparse}))
    assert [one.verdict for one in found] == [CANNOT_TELL]


def test_few_copies_are_as_good_as_none_and_surely_some_are_not():
    """Excess in [−.001, .0005]: below a thousandth. In [.0001, .0005]: surely some. In [−.1, .1]: not known."""
    for low, high, ruling in ((-0.001, 0.0005, HELD), (0.0001, 0.0005, NOT_HELD), (-0.1, 0.1, CANNOT_TELL)):
        assert decided(Measured(0.0, -high, -low, 1), COPIES) == ruling
