"""Scores on one domain alone: the same numbers as on records that were restricted by hand."""

from __future__ import annotations

import pytest
from tests.evaluation.conftest import World

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison, Missing
from adapcla.evaluation.domains import PRIVACY_BY_DOMAIN, domain_scores, scored_by_domain
from adapcla.evaluation.metric import METRICS, METRICS


def test_a_domain_alone_scores_as_records_restricted_to_it(world: World):
    train, made = world(100, 1), world(80, 2)
    metrics = [METRICS[key] for key in ("pair_seen", "bigram_r2", "codes_per_visit_diff")]
    found = domain_scores(metrics, Comparison.of(train, train, made))
    alone = [one.without_values().keep_codes(one.vocabulary.domain_mask("drug")) for one in (train, made)]
    by_hand = Comparison.of(alone[0], alone[0], alone[1])
    for metric in metrics:
        assert list(found[metric.key]) == ["only:diagnosis", "only:drug", "only:lab", "only:stay"]
        assert found[metric.key]["only:drug"] == metric.compute(by_hand)[ALL]


def test_a_domain_that_somebody_lacks_says_so(world: World):
    train = world(50, 1)
    sober = train.keep_codes(~train.vocabulary.domain_mask("drug"))
    comparison = Comparison.of(train, train, sober)
    lacking = comparison.within("drug")
    assert isinstance(lacking, Missing) and lacking.reason == "no synthetic patient has a code of the domain drug"
    scores = domain_scores([METRICS["pair_seen"]], comparison)["pair_seen"]
    assert scores["only:drug"].value is None and scores["only:diagnosis"].value is not None


def test_work_on_real_patients_of_a_domain_is_done_once(world: World):
    base = Comparison.of(world(50, 1), world(50, 2), world(50, 3))
    one, two = base.within("drug"), base.with_synthetic(base.whole.test).within("drug")
    assert not isinstance(one, Missing) and not isinstance(two, Missing)
    assert one.train is two.train and one.test is two.test and two.synthetic is two.test


def test_one_domain_is_not_scored_twice():
    plain = Cohort.of([[["A", "B"]]])
    assert domain_scores([METRICS["pair_seen"]], Comparison.of(plain, plain, plain)) == {"pair_seen": {}}


@pytest.mark.parametrize("reference", [False, True])
def test_what_asks_the_model_or_costs_much_is_left_out(reference: bool):
    chosen = {metric.key for metric in METRICS if scored_by_domain(metric, reference)}
    assert not any(key.startswith("tail_swap") for key in chosen)
    assert ("membership_auc" in chosen) != reference
    assert {key for key in chosen if METRICS[key].suite == "privacy"} | {"membership_auc"} == set(PRIVACY_BY_DOMAIN)
    assert {metric.key for metric in METRICS if metric.suite == "fidelity"} <= chosen
