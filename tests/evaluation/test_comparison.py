"""A comparison: one vocabulary, work done once, values beside codes, and the codes of one domain alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import World

from adapcla.data import Code, Cohort, Prevalence
from adapcla.errors import InputError
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score, has_values, units_of
from adapcla.evaluation.metric import METRICS, Metric
from adapcla.evaluation.runner import content_key, domain_scores


def test_cohorts_meet_by_code_string_never_by_position():
    """B is code 1 of train and code 0 of the synthetic cohort; on the union {A, B, C} it is code 1 in both."""
    train, other = Cohort.of([[["A", "B"]]]), Cohort.of([[["B", "C"]]])
    comparison = Comparison.of(train, train, other)
    assert comparison.vocabulary.tokens == ("A", "B", "C")
    assert comparison.synthetic.codes.tolist() == [1, 2]
    assert comparison.train.codes.tolist() == [0, 1]


def test_target_codes_outside_every_cohort_stay_in_the_comparison():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train, target=Prevalence.of({"A": 0.5, "Z": 0.25}))
    assert comparison.vocabulary.tokens == ("A", "Z")
    assert comparison.target is not None
    assert comparison.target.share.tolist() == [0.5, 0.25]


def test_work_on_real_cohorts_is_kept_across_references_and_work_on_the_synthetic_one_is_not():
    train, made = Cohort.of([[["A"]], [["B"]]]), Cohort.of([[["A"]]], ["A", "B"])
    calls: list[int] = []

    def count(cohort: Cohort) -> int:
        calls.append(cohort.n_patients)
        return cohort.n_patients

    first = Comparison.of(train, train, made)
    second = first.with_synthetic(train.subset([0, 0, 0]))
    assert [c.of_cohort(count, c.train) for c in (first, second, first)] == [2, 2, 2]
    assert calls == [2]
    assert [c.of_cohort(count, c.synthetic) for c in (first, second, second)] == [1, 3, 3]
    assert calls == [2, 1, 3]


def test_another_synthetic_cohort_does_not_inherit_evidence():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train, evidence={"member_scores": np.zeros(1)})
    assert comparison.with_synthetic(train).evidence == {}


def test_shared_work_is_done_once_for_each_function_and_its_arguments():
    train = Cohort.of([[["A"]]])
    comparison = Comparison.of(train, train, train)
    calls: list[int] = []

    def work(one: Comparison, number: int) -> int:
        calls.append(number)
        return number

    assert [comparison.once(work, number) for number in (1, 2, 1)] == [1, 2, 1]
    assert calls == [1, 2]
    comparison.with_synthetic(train).once(work, 1)
    assert calls == [1, 2, 1]


def test_a_missing_score_says_why():
    assert Missing("nothing there", 3).score == Score(None, 3, None, None, "nothing there")


# ---- values of numbers --------------------------------------------------------------------------------------
def glucose(unit: str = "mg/dL", value: float = 99) -> Cohort:
    lab = Code.of("glucose", "LAB", domain="lab", unit=unit)
    return Cohort.of([[["A", "LAB/glucose"]]], ["A", lab], values=np.array([np.nan, value], dtype=np.float32))


def test_metrics_of_codes_see_numbers_as_plain_codes_and_the_values_stand_beside_them(world: World):
    train, made = world(30, 1), world(30, 2)
    comparison = Comparison.of(train, train, made)
    assert comparison.train.values is None and not comparison.vocabulary.numbers.any()
    assert comparison.with_values is not None and comparison.whole.synthetic.values is not None
    assert comparison.whole.train.vocabulary.tokens == comparison.vocabulary.tokens
    assert np.array_equal(comparison.whole.synthetic.codes, comparison.synthetic.codes)


def test_a_number_only_one_side_has_finds_its_place_on_the_common_vocabulary():
    other = Cohort.of([[["A", "B"]]])
    comparison = Comparison.of(glucose(), glucose(), other)
    assert comparison.with_values is not None
    assert comparison.whole.synthetic.values is not None and np.isnan(comparison.whole.synthetic.values).all()


def test_whoever_wrote_a_number_without_its_value_has_none():
    plain = glucose().without_values()
    assert Comparison.of(glucose(), glucose(), plain).with_values is None
    assert Comparison.of(plain, plain, glucose()).with_values is None
    assert not has_values(plain, units_of(glucose()))


def test_two_units_of_one_number_are_refused_by_name():
    with pytest.raises(InputError, match=r"LAB/glucose: in mg/dL in one cohort and in mmol/L in another"):
        Comparison.of(glucose(), glucose(), glucose("mmol/L"))


def test_another_synthetic_cohort_brings_its_values_or_the_comparison_is_one_of_codes():
    base = Comparison.of(glucose(), glucose(), glucose())
    other = base.with_synthetic(glucose(value=7))
    assert other.with_values is not None and other.whole.synthetic.values is not None
    assert other.whole.synthetic.values[1] == 7
    assert base.with_synthetic(glucose().without_values()).with_values is None
    assert base.with_synthetic(base.whole.test).synthetic is base.test, "work on the test patients is shared"


def test_values_change_what_a_score_is_kept_under():
    one, two = (Comparison.of(glucose(value=value), glucose(), glucose()) for value in (1, 2))
    assert content_key(one) != content_key(two)


# ---- one domain alone ---------------------------------------------------------------------------------------
def by_domain(metrics: list[Metric], comparison: Comparison, reference: bool = False) -> dict[str, dict[str, Score]]:
    """The scores of single domains by metric and stratum."""
    out: dict[str, dict[str, Score]] = {}
    for metric, scores in domain_scores(metrics, comparison, reference):
        out.setdefault(metric.key, {}).update(scores)
    return out


def test_a_domain_alone_scores_as_records_restricted_to_it(world: World):
    train, made = world(100, 1), world(80, 2)
    metrics = [METRICS[key] for key in ("pair_seen", "bigram_r2", "codes_per_visit_diff")]
    found = by_domain(metrics, Comparison.of(train, train, made))
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
    scores = by_domain([METRICS["pair_seen"]], comparison)["pair_seen"]
    assert scores["only:drug"].value is None and scores["only:diagnosis"].value is not None


def test_work_on_real_patients_of_a_domain_is_done_once(world: World):
    base = Comparison.of(world(50, 1), world(50, 2), world(50, 3))
    one, two = base.within("drug"), base.with_synthetic(base.whole.test).within("drug")
    assert not isinstance(one, Missing) and not isinstance(two, Missing)
    assert one.train is two.train and one.test is two.test and two.synthetic is two.test


def test_one_domain_is_not_scored_twice():
    plain = Cohort.of([[["A", "B"]]])
    assert by_domain([METRICS["pair_seen"]], Comparison.of(plain, plain, plain)) == {}


def test_what_is_slow_is_scored_by_domain_for_the_synthetic_patients_alone():
    one = Cohort.of([[["A", "drug"]], [["A"]]] * 5, ["A", Code.of("drug", domain="drug")])
    comparison = Comparison.of(one, one, one)
    metrics = [METRICS["membership_auc"], METRICS["pair_seen"], METRICS["death_rate"]]
    assert set(by_domain(metrics, comparison)) == {"membership_auc", "pair_seen"}
    assert set(by_domain(metrics, comparison, reference=True)) == {"pair_seen"}
