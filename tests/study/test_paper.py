"""The paper's numbers and claims."""

from __future__ import annotations

from collections import Counter

import pytest

from adapcla.evaluation.metric import SUITES, metrics_of
from adapcla.generation import generator_for
from adapcla.study.paper import CLAIMS, III, IV, PROBES, SCHEDULES, TRANSFER, format_gains, paper_gains, paper_number
from adapcla.study.spec import read_study
from adapcla.training.settings import METHODS


def test_every_claim_is_about_a_metric_that_exists() -> None:
    known = {metric.key for metric in metrics_of(list(SUITES))}
    assert {claim.metric for claim in CLAIMS} <= known


def test_every_claim_is_about_methods_or_rows_of_the_ablations(repository) -> None:
    rows = read_study(repository / "experiments" / "ablation.toml").fit.rows()
    assert {name for claim in CLAIMS for name in (claim.row, claim.other)} <= {*rows, *METHODS}
    for method, settings in rows.values():
        generator_for(method, **settings)


def test_no_claim_is_made_twice() -> None:
    counts = Counter((claim.row, claim.other, claim.metric, claim.stratum) for claim in CLAIMS)
    assert max(counts.values()) == 1


@pytest.mark.parametrize(
    ("cohort", "row", "metric", "stratum", "number"),
    [
        (III, "adapcla", "tail_pair_seen", "rare20", 0.1114),
        (IV, "adapcla", "tail_ctx_jsd", "rare20", 0.6313),
        (III, "halo", "pair_seen", "all", 0.8263),
        (IV, "static-pcla", "tstr_auprc", "all", 0.9309),
        (TRANSFER, "gpt", "tstr_f1", "all", 0.836),
        (IV, "halo", "ece_balanced", "tail", 0.44),
        (III, "halo", "ece_balanced", "tail", None),
        (III, "static-pcla-train-only", "tail_pair_seen", "rare20", None),
        ("another cohort", "halo", "pair_seen", "all", None),
        (III, "tailwise", "pair_seen", "all", None),
    ],
)
def test_the_papers_numbers_stand_where_the_paper_has_them(cohort, row, metric, stratum, number):
    assert paper_number(cohort, row, metric, stratum) == number


def test_tail_numbers_are_never_shown_beside_another_cut():
    """The paper cuts at the rarest 20 %; beside the rarest third its number would mislead."""
    assert paper_number(III, "adapcla", "tail_pair_seen", "all") is None


def test_differences_name_their_cohort():
    assert format_gains(paper_gains("adapcla", "halo", "tstr_auprc", "all")) == "+0.022 (III), +0.049 (IV)"
    assert paper_gains("adapcla", "tailwise", "tstr_auprc", "all") == {}
    # A smaller divergence is better, so the gain is positive.
    assert (
        format_gains(paper_gains("adapcla-halo", "halo", "tail_ctx_jsd", "rare20", "down"))
        == "+0.058 (III), +0.034 (IV)"
    )


def test_schedules_and_probes_are_those_of_the_paper():
    assert SCHEDULES["fast"] == (1.04, 101.4, 0.401) and PROBES[100, "wrong"] == (4.32, 0.50)


def test_the_papers_claims_are_confirmatory_and_controls_are_not():
    assert {claim.whose for claim in CLAIMS if claim.confirmatory} == {"paper"}
    assert any(not claim.confirmatory for claim in CLAIMS)
