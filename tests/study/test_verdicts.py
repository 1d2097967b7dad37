from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adapcla.evaluation import Reference
from adapcla.study.claims import CLAIMS, Claim
from adapcla.study.results import Measured, Study
from adapcla.study.ruling import CANNOT_TELL, EXCLUDED, HELD, NOT_HELD
from adapcla.study.verdicts import (
    Side,
    difference,
    examined,
    gain,
    not_assessed,
    paired_gains,
    privacy_claims,
    shared_error,
    side,
    verdict_table,
    verdicts,
)

WORDS = {HELD, NOT_HELD, EXCLUDED, CANNOT_TELL}


def test_lower_is_better_where_the_goal_is_down():
    """0.2 against 0.5 on a loss is a gain of 0.3; half-widths 0.03 and 0.04 make 0.05."""
    better = difference(Measured(0.2, 0.17, 0.23, 1), Measured(0.5, 0.46, 0.54, 1), "down")
    assert better.value == pytest.approx(0.3)
    assert (better.low, better.high) == (pytest.approx(0.25), pytest.approx(0.35))


def test_without_an_interval_on_one_side_there_is_none():
    assert difference(Measured(0.9, None, None, 1), Measured(0.1, 0.0, 0.2, 1), "up").low is None


def test_a_study_says_what_it_can_and_names_what_it_did_not_look_at(finished_run):
    study = Study.open(finished_run)
    found = verdicts(study)
    claims = [one.claim for one in found]
    assert any("same network and passes without it" in claim for claim in claims)
    assert any("nearer to the population “shifted”" in claim for claim in claims)
    assert any("does not copy rare training patients" in claim for claim in claims)
    assert {one.verdict for one in found} <= WORDS
    unseen = not_assessed(study)
    assert any("needs halo" in claim for claim in unseen)
    assert len(unseen) + sum(1 for c in CLAIMS if {c.row, c.other} <= set(study.rows)) == len(CLAIMS)


def test_where_real_patients_are_to_be_matched_the_nearer_row_gains(finished_run):
    study = Study.open(finished_run)
    claim = Claim("nearer", "adapcla", "adapcla-no-scaffold", "next_visit_jaccard")
    found = examined(study, claim)
    one, two, real = (
        study.measured(row, claim.metric).value for row in ("adapcla", "adapcla-no-scaffold", Reference.REAL_TEST)
    )
    assert float(found.ours) == pytest.approx(abs(two - real) - abs(one - real), abs=6e-4)
    assert "(real " in found.reason


def test_the_verdict_is_the_last_column(finished_run):
    table = verdict_table(Study.open(finished_run))
    assert table.columns[-1] == "verdict"
    assert {line.cells[-1].text for line in table.lines} <= WORDS


def test_fits_are_paired_by_seed_so_that_common_luck_drops_out():
    """Seeds differ by 0.5, rows by about 0.01 on every seed: paired it is sure, unpaired nothing could be said."""
    one, two = {1: 0.111, 2: 0.610, 3: 0.310, 5: 0.2}, {1: 0.10, 2: 0.60, 3: 0.30, 4: 0.9}
    assert paired_gains(one, two, "up") == pytest.approx([0.011, 0.010, 0.010])
    assert paired_gains(one, two, "down") == pytest.approx([-0.011, -0.010, -0.010])
    assert paired_gains({1: 0.1}, {2: 0.2}, "up") == []


def study_of(rows: dict[str, dict[str, list[float | None]]], stratum: str = "rare20", n: int = 1000) -> Study:
    """A study from row → metric → the value of each fit seed; shares are of `n` things each."""
    lines = [
        {
            "row": row,
            "metric": metric,
            "stratum": "all" if metric not in GOALS else stratum,
            "goal": GOALS.get(metric, "up"),
            "fit": fit,
            "value": value,
            "n": n,
        }
        for row, metrics in rows.items()
        for metric, values in metrics.items()
        for fit, value in enumerate(values, 1)
    ]
    beside = [f"{one.value}{end}" for one in Reference for end in ("", "_low", "_high")]
    empty = {**dict.fromkeys(beside, pl.Float64), "redrawn": pl.List(pl.Float64)}
    about = {"fits": [{"row": row, "toward": []} for row in rows], "spec": {"cohort": ""}}
    study = Study(Path(), about)
    scores = pl.DataFrame(lines, schema_overrides={"value": pl.Float64}).with_columns(
        *(pl.lit(None, kind).alias(name) for name, kind in empty.items()),
        # Half of the interval is 1.96 standard errors of .0002.
        low=pl.col("value") - 0.000392,
        high=pl.col("value") + 0.000392,
    )
    vars(study).update(scores=scores, steered=pl.DataFrame())
    return study


GOALS = {"tail_pair_seen": "up", "tail_ctx_jsd": "down", "tail_topk_jac": "up"}


def fits(*starts: float) -> dict[str, list[float | None]]:
    """Five fits of each metric of the tail, which differ by a thousandth or two."""
    return {
        metric: [start + wobble for wobble in (0.0, 0.001, -0.001, 0.002, -0.001)]
        for metric, start in zip(GOALS, starts, strict=True)
    }


GOOD, POOR = fits(0.50, 0.30, 0.40), {m: v[::-1] for m, v in fits(0.10, 0.60, 0.10).items()}
NOISY = {metric: [0.1, 0.9, 0.5, 0.2, 0.7] for metric in GOALS}


@pytest.mark.parametrize(
    ("ours", "theirs", "ruling"), [(GOOD, POOR, HELD), (POOR, GOOD, NOT_HELD), (GOOD, NOISY, CANNOT_TELL)]
)
def test_an_ablation_is_judged_metric_by_metric_like_every_claim(ours, theirs, ruling):
    found = verdicts(study_of({"adapcla": ours, "adapcla-permuted": theirs}))
    assert [one.verdict for one in found] == [ruling] * 3
    assert all("5 fit seeds; p " in one.why for one in found)


def test_three_fits_decide_nothing_and_say_so():
    one, two = ({metric: values[:3] for metric, values in row.items()} for row in (GOOD, POOR))
    found = verdicts(study_of({"adapcla": one, "adapcla-permuted": two}))
    assert {one.verdict for one in found} == {CANNOT_TELL}
    assert all("3 fit seeds, 4 needed" in one.why for one in found)


def test_equal_numbers_of_all_fits_decide_nothing():
    same, zero = ({metric: [number] * 5 for metric in list(GOALS)[1:]} for number in (0.5, 0.0))
    found = verdicts(study_of({"adapcla": zero, "adapcla-permuted": same}))
    assert {one.verdict for one in found} == {CANNOT_TELL}
    assert all("every fit gives the same number" in one.why for one in found)


@pytest.mark.parametrize(("n", "ruling"), [(4, CANNOT_TELL), (1000, HELD)])
def test_a_share_of_few_pairs_does_not_pass_the_exact_test(n, ruling):
    """.35 against .25 of 20 pairs in all is 7 against 5; of 5,000 it is 1,750 against 1,250."""
    ours, theirs = {"tail_pair_seen": [0.35, 0.351, 0.349, 0.35, 0.352]}, {"tail_pair_seen": [0.25] * 5}
    (found,) = verdicts(study_of({"adapcla": ours, "adapcla-permuted": theirs}, n=n))
    assert found.verdict == ruling


def test_an_interval_below_the_gain_of_the_paper_excludes_it():
    """The paper's smaller gain over HALO is .032; ours is .001 with a standard error of .002."""
    ours = {"tail_pair_seen": [0.106, 0.096, 0.104, 0.099, 0.100]}
    (found,) = verdicts(study_of({"adapcla": ours, "halo": {"tail_pair_seen": [0.1] * 5}}))
    assert found.verdict == EXCLUDED and found.paper == "+0.059 (III), +0.032 (IV)"


def test_a_row_that_wrote_no_tail_pair_has_lost_the_tail():
    gone = dict(zip(GOALS, ([None] * 5, [None] * 5, [0.0] * 5), strict=True)) | {"pair_seen": [0.9] * 5}
    there = GOOD | {"pair_seen": [0.8] * 5}
    found = verdicts(study_of({"adapcla": there, "static-pcla-train-only": gone}))
    assert [one.verdict for one in found] == [HELD] * 3
    assert sum("wrote no tail pair" in one.why for one in found) == 2
    turned = verdicts(study_of({"adapcla": gone, "static-pcla-train-only": there}))
    assert [one.verdict for one in turned] == [NOT_HELD] * 3
    rows = {"adapcla": there, "static-pcla-train-only": gone}
    few = {row: {metric: values[:3] for metric, values in metrics.items()} for row, metrics in rows.items()}
    assert {one.verdict for one in verdicts(study_of(few))} == {CANNOT_TELL}


def test_a_row_with_one_tail_pair_in_some_fit_has_not_lost_it():
    sparse = {"tail_pair_seen": [None, None, None, None, 0.2], "tail_ctx_jsd": [None] * 5}
    found = verdicts(study_of({"adapcla": GOOD, "static-pcla-train-only": sparse}))
    assert [one.verdict for one in found] == [CANNOT_TELL]


@pytest.mark.parametrize(("excess", "ruling"), [(0.0, HELD), (0.0009, NOT_HELD), (0.002, NOT_HELD), (0.0004, HELD)])
def test_few_copies_are_as_good_as_none_and_surely_some_are_not(excess, ruling):
    """The standard error is .0002: .0004 is three errors below a thousandth and only two above zero."""
    study = study_of({"adapcla": {"rare_copy_excess": [excess]}, "halo": {"rare_copy_excess": [0.0005]}})
    assert len(privacy_claims(study)) == 2
    assert verdicts(study)[0].verdict == ruling


def test_the_figure_of_differences_shows_pairs_or_an_interval_from_both():
    study = study_of({"adapcla": GOOD, "halo": POOR})
    one, two = (side(study, row, "tail_topk_jac", "rare20") for row in ("adapcla", "halo"))
    assert gain(one, two, "up").value == pytest.approx(0.3) and gain(one, two, "up").n == 5


def test_what_both_rows_owe_to_the_test_patients_cancels():
    number = Measured(0.5, None, None, 2)
    luck = np.array([0.0, 0.2, 0.1, -0.3])
    one, two = Side(number, {}, 0.6 + luck), Side(number, {}, 0.5 + luck)
    assert shared_error(one, two) == pytest.approx(0.0, abs=1e-12)
    assert shared_error(one, Side(number, {}, 0.5 - luck)) == pytest.approx(2 * luck.std(ddof=1))
    other = Side(number, {}, np.array([0.1, 0.3]))
    assert shared_error(one, other) == pytest.approx((luck.var(ddof=1) + 0.02) ** 0.5)
