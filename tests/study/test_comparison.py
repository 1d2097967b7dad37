"""Paired comparisons and claims, on cases that can be solved on paper."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adapcla.evaluation import Reference
from adapcla.study.comparison import (
    EXPLORATORY,
    HELD,
    INCONCLUSIVE,
    NOT_HELD,
    claims_not_evaluated,
    claims_table,
    evaluate_claims,
    holm,
    paired_comparison,
)
from adapcla.study.paper import CLAIMS, Claim
from adapcla.study.results import Study


def test_without_overlap_it_is_students_paired_test():
    """Gains 0, 2, 0, 2: mean 1, error 1/√3, t = √3 with 3 degrees: P(T > t) = 1/4 − 1/(2π), twice."""
    found = paired_comparison({1: 0.0, 2: 2.0, 3: 1.0, 4: 3.0}, {1: 0.0, 2: 0.0, 3: 1.0, 4: 1.0}, test_share=0.0)
    assert (found.gain, found.n) == (1.0, 4)
    assert found.p_value == pytest.approx(2 * (0.25 - 1 / (2 * math.pi)))


def test_overlapping_training_parts_make_the_interval_wider():
    """With a fifth of the patients tested, n = 4: the variance grows by (1/4 + 1/4) / (1/4) = 2."""
    a, b = {1: 0.0, 2: 2.0, 3: 0.0, 4: 2.0}, dict.fromkeys(range(1, 5), 0.0)
    plain, corrected = (paired_comparison(a, b, share) for share in (0.0, 0.2))
    assert corrected.high - corrected.low == pytest.approx((plain.high - plain.low) * 2**0.5)
    assert corrected.p_value > plain.p_value


def test_correlated_resamples_keep_the_level_that_the_plain_test_loses():
    """Differences that share half of their variance, as those of overlapping training parts do."""
    rng = np.random.default_rng(1)
    n, share, trials = 10, 0.2, 2000
    rho = share  # what Nadeau and Bengio take for the correlation of two splits
    luck = rng.normal(size=(trials, 1)) * rho**0.5 + rng.normal(size=(trials, n)) * (1 - rho) ** 0.5
    zero = dict.fromkeys(range(n), 0.0)
    wrong = [
        np.mean([paired_comparison(dict(enumerate(row)), zero, taken).p_value <= 0.05 for row in luck])
        for taken in (0.0, share)
    ]
    assert wrong[0] > 0.1 and wrong[1] < 0.065


def test_only_shared_seeds_count_and_lower_may_be_better():
    assert paired_comparison({1: 0.1}, {2: 0.2}, 0.2).n == 0
    found = paired_comparison({1: 0.1, 2: 0.2, 7: 9.0}, {1: 0.3, 2: 0.3}, 0.2, goal="down")
    assert found.gain == pytest.approx(0.15) and found.n == 2


@pytest.mark.parametrize("gains", [[], [0.5], [0.0] * 5, [0.1] * 5, [0.3 - 0.2, 0.2 - 0.1, 0.1, 0.1]])
def test_one_seed_and_equal_seeds_have_no_p_value(gains):
    found = paired_comparison(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0), 0.2)
    assert found.p_value is None and found.low is None


def test_holms_adjusted_p_values():
    """Sorted .01, .0125, .02, .03, .9 times 5, 4, 3, 2, 1; never below the one before."""
    assert holm([0.02, 0.01, 0.9, 0.0125, 0.03]) == pytest.approx([0.06, 0.05, 0.9, 0.05, 0.06])
    assert holm([]) == []


def study_of(rows: dict[str, dict[str, list[float | None]]], stratum: str = "rare20") -> Study:
    """A study from row → metric → the value of each fit seed."""
    lines = [
        {"row": row, "metric": metric, "stratum": stratum, "goal": GOALS.get(metric, "up"), "fit": fit, "value": value}
        for row, metrics in rows.items()
        for metric, values in metrics.items()
        for fit, value in enumerate(values, 1)
    ]
    study = Study(Path(), {"fits": [{"row": row, "toward": []} for row in rows], "spec": {"cohort": ""}})
    scores = pl.DataFrame(lines, schema_overrides={"value": pl.Float64}).with_columns(
        *(pl.lit(None, pl.Float64).alias(f"{one.value}{end}") for one in Reference for end in ("", "_low", "_high")),
        low=pl.col("value"),
        high=pl.col("value"),
    )
    parts = {"parts": {"train": [720, 0], "test": [180, 0]}}
    vars(study).update(scores=scores, steered_scores=pl.DataFrame(), data_record=parts)
    return study


GOALS = {"tail_pair_seen": "up", "tail_ctx_jsd": "down", "tail_topk_jac": "up"}


def fits(*starts: float) -> dict[str, list[float | None]]:
    """Five fits of each metric of the tail, which differ by a thousandth or two."""
    return {
        metric: [start + noise for noise in (0.0, 0.001, -0.001, 0.002, -0.001)]
        for metric, start in zip(GOALS, starts, strict=True)
    }


GOOD, POOR = fits(0.50, 0.30, 0.40), {m: v[::-1] for m, v in fits(0.10, 0.60, 0.10).items()}
NOISY = {metric: [0.1, 0.9, 0.5, 0.2, 0.7] for metric in GOALS}


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"), [(GOOD, POOR, HELD), (POOR, GOOD, NOT_HELD), (GOOD, NOISY, INCONCLUSIVE)]
)
def test_every_metric_of_the_papers_ablation_is_a_claim_of_its_own(ours, theirs, verdict):
    found = evaluate_claims(study_of({"adapcla": ours, "static-pcla": theirs}))
    assert [one.verdict for one in found] == [verdict] * 3
    assert all("5 fit seeds, p " in one.reason and one.adjusted is not None for one in found)


def test_controls_are_exploratory_and_take_nothing_from_the_level_of_the_others():
    found = evaluate_claims(study_of({"adapcla": GOOD, "static-pcla": POOR, "adapcla-permuted": POOR}))
    assert [one.verdict for one in found] == [HELD] * 3 + [EXPLORATORY] * 3
    table = claims_table(study_of({"adapcla": GOOD}), found)
    assert [line.cells[-1].text for line in table.lines] == [HELD] * 3 + [EXPLORATORY] * 3
    assert all(line.cells[-2].value < 0.001 for line in table.lines)
    assert found[0].adjusted == pytest.approx(3 * found[0].comparison.p_value, rel=1e-6) or found[0].adjusted < 1e-6


def test_three_fits_decide_nothing_and_say_so():
    one, two = ({metric: values[:3] for metric, values in row.items()} for row in (GOOD, POOR))
    found = evaluate_claims(study_of({"adapcla": one, "static-pcla": two}))
    assert {one.verdict for one in found} == {INCONCLUSIVE}
    assert all("3 fit seeds in common, 4 needed" in one.reason for one in found)


def test_equal_numbers_of_all_fits_decide_nothing():
    same, zero = ({metric: [number] * 5 for metric in GOALS} for number in (0.5, 0.0))
    found = evaluate_claims(study_of({"adapcla": zero, "static-pcla": same}))
    assert {one.verdict for one in found} == {INCONCLUSIVE}
    assert all("give the same difference" in one.reason for one in found)


def test_a_method_that_generated_no_tail_pair_has_lost_the_tail():
    gone = dict(zip(GOALS, ([None] * 5, [None] * 5, [0.0] * 5), strict=True))
    found = evaluate_claims(study_of({"adapcla": GOOD, "static-pcla-train-only": gone}))
    assert [one.verdict for one in found] == [HELD] * 3
    assert sum("generated no tail pair" in one.reason for one in found) == 2
    turned = evaluate_claims(study_of({"adapcla": gone, "static-pcla-train-only": GOOD}))
    assert [one.verdict for one in turned] == [NOT_HELD] * 3
    few = {row: {m: v[:3] for m, v in x.items()} for row, x in (("adapcla", GOOD), ("static-pcla-train-only", gone))}
    assert {one.verdict for one in evaluate_claims(study_of(few))} == {INCONCLUSIVE}


def test_where_real_patients_are_to_be_matched_the_closer_method_gains(finished_run, monkeypatch):
    study = Study.open(finished_run)
    assert study.goal("next_visit_jaccard") == "match"
    real = study.estimate(Reference.REAL_TEST, "next_visit_jaccard").value
    one, two = (study.estimate(row, "next_visit_jaccard").value for row in study.rows)
    claim = Claim("closer", *study.rows, "next_visit_jaccard")
    monkeypatch.setattr("adapcla.study.comparison.CLAIMS", (claim,))
    found = next(found for found in evaluate_claims(study) if found.claim == claim)
    assert found.comparison.gain == pytest.approx(abs(two - real) - abs(one - real))
    assert "(real data " in found.reason


def test_a_study_says_what_it_can_and_names_what_it_did_not_run(finished_run):
    study = Study.open(finished_run)
    claims = [one.claim.text for one in evaluate_claims(study)]
    assert any("closer to the population “shifted”" in claim for claim in claims)
    unseen = claims_not_evaluated(study)
    assert any("needs halo" in claim for claim in unseen)
    assert len(unseen) + sum(1 for c in CLAIMS if {c.row, c.other} <= set(study.rows)) == len(CLAIMS)
