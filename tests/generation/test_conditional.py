"""What a model may be asked for, and patients of a condition: the distribution of rejection, for every model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.data import Attribute, Cohort, Prevalence
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation import Generator, conditional
from adapcla.generation.conditional import (
    Begun,
    Branches,
    Pool,
    Proposed,
    Proposer,
    Request,
    rarest_clause,
    sample_given,
)
from adapcla.generation.model import Model
from adapcla.generation.sampler import Rolled, SampleRule, draw_rule, sample
from adapcla.generation.steering import steer
from adapcla.models.draws import Noise
from adapcla.models.gpt import GPT
from adapcla.scaffold import Steering

CONDITIONS = {
    "a code": Criteria.of("C6"),
    "any of two, at last": Criteria.of("C6|C5", at="last"),
    "two codes": Criteria.of(["C4", "C3"]),
    "many codes, most of them rare": Criteria.of("C2|C4|C5|C6|C7"),
    "a family at first": Criteria.of("C*6", at="first"),
    "early, long, female, and not another": Criteria.of(
        "C5", without="C1", where=[("sex", "F")], visits="2..3", within=2
    ),
}
METHODS = ("adapcla", "tailwise", "gpt", "halo", "eva", "synteg", "marginal")
_N_PLAIN, _N = 12_000, 500


@pytest.fixture(scope="module", params=METHODS)
def world(request: pytest.FixtureRequest, small_model: Callable[..., Model]) -> tuple[Model, Cohort]:
    """A model and many of its plain patients."""
    model = small_model(request.param, **({"heads": None} if request.param == "eva" else {}))
    return model, sample(model, _N_PLAIN, seed=5)


@pytest.fixture
def never_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals go by first passage although the condition is not rare, so that plain patients can be counted too."""
    monkeypatch.setattr(conditional, "COMMON", 1.1)


def cells(cohort: Cohort) -> list[tuple[object, ...]]:
    """A coarse picture of each patient: visits, size of first and last visit, and whether frequent codes are there."""
    rows = []
    for number, patient in enumerate(cohort.patients()):
        sex = int(cohort.attributes["sex"].values[number])
        flat = {code for visit in patient for code in visit}
        rows.append((sex, len(patient), min(len(patient[0]), 3), "C0" in patient[-1], "C1" in flat, "C2" in flat))
    return rows


def p_value(one: Cohort, two: Cohort) -> float:
    """Of the χ² test that both cohorts have the same cells; rare cells are one."""
    counts = [Counter(cells(cohort)) for cohort in (one, two)]
    share = one.n_patients / (one.n_patients + two.n_patients)
    least = 6 / min(share, 1 - share)
    common = [cell for cell in counts[0] | counts[1] if counts[0][cell] + counts[1][cell] >= least]
    table = np.array([[count[cell] for cell in common] for count in counts], dtype=float)
    rest = np.array([one.n_patients, two.n_patients]) - table.sum(axis=1)
    table = np.c_[table, rest] if rest.sum() >= least else table
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("name", CONDITIONS)
def test_patients_follow_the_distribution_of_rejection(
    name: str, world: tuple[Model, Cohort], never_plain: None
) -> None:
    model, plain = world
    condition = CONDITIONS[name]
    rejected = condition.patients(plain)
    found = sample_given(model, _N, 7, condition)
    assert found.n_patients == _N
    assert condition.matches(found).all()
    assert found.card["effort"]["way"] == "first passage"
    assert p_value(rejected, found) > 1e-4
    female = 1.0 if not condition.where else float((plain.attributes["sex"].values == 0).mean())
    counted = rejected.n_patients / _N_PLAIN / female
    error = np.sqrt(counted * (1 - counted) / _N_PLAIN / female + counted**2 / found.card["effort"]["effective"])
    assert abs(found.card["effort"]["probability"] - counted) < 4 * error


def test_the_test_can_fail(world: tuple[Model, Cohort], never_plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every branch counted alike, also in visits in which the code does not belong, that is seen."""
    model, plain = world
    if model.method in ("eva", "synteg", "marginal"):
        pytest.skip("visits of this model hardly know each other, so that their weights are alike")
    stems = Proposer.stems

    def alike(self: Proposer, begun: Begun) -> tuple[Branches, int]:
        branches, n_visits = stems(self, begun)
        low = np.arange(len(branches.stem)) - np.searchsorted(branches.stem, branches.stem)
        return branches._replace(low=low / 8.0, high=(low + 1) / 8.0), n_visits

    monkeypatch.setattr(Proposer, "stems", alike)
    condition = CONDITIONS["a code"]
    assert p_value(condition.patients(plain), sample_given(model, 4 * _N, 7, condition)) < 1e-3


def branches_of(model: Model, condition: Criteria, n: int) -> tuple[Proposer, Begun, Branches]:
    proposer = Proposer(model, condition, draw_rule(model), model.longest, clause=rarest_clause(model, condition))
    number, attributes = np.arange(n), model.attribute_distribution.draw(np.arange(n), 3)
    state = model.network.begin(torch.from_numpy(attributes), Noise(11, number, 0))
    begun = Begun(number, attributes, state, 11)
    return proposer, begun, proposer.stems(begun)[0]


def test_the_mean_weight_of_stems_is_the_frequency(world: tuple[Model, Cohort]) -> None:
    model, plain = world
    for condition in (Criteria.of("C6"), Criteria.of("C3|C5|C7"), Criteria.of("C7", at="first")):
        _, _, branches = branches_of(model, condition, 4000)
        each = np.bincount(branches.stem, branches.high - branches.low, minlength=4000)
        assert each.max() <= 1 + 1e-9  # the branches of a stem stand for at most 1 together
        frequency = condition.matches(plain).mean()
        error = np.sqrt(each.var() / 4000 + frequency * (1 - frequency) / _N_PLAIN)
        assert abs(each.mean() - frequency) < 4 * error
        # Where the condition decides by itself, weights vary less than being or not being of the condition does.
        assert each.var() < frequency * (1 - frequency)


def test_a_branch_holds_its_code_where_it_left_and_none_before(world: tuple[Model, Cohort]) -> None:
    model, _ = world
    condition = Criteria.of("C2|C5|C7")
    proposer, begun, branches = branches_of(model, condition, 500)
    rolled = proposer.drawn(begun, branches)
    starts, entries = np.r_[0, np.cumsum(rolled.lengths)], np.r_[0, np.cumsum(rolled.visit_sizes)]
    assert proposer.clause is not None
    clause = model.network.order.decode(proposer.clause)
    for i, (visit, target) in enumerate(zip(branches.visit, branches.target, strict=True)):
        at = starts[i] + visit
        before = rolled.codes[entries[starts[i]] : entries[at]]
        here = rolled.codes[entries[at] : entries[at + 1]]
        assert not np.isin(before, clause).any()
        assert clause[target] in here and not np.isin(here, clause[:target]).any()


def test_the_distribution_of_a_steered_model_is_kept_too(never_plain: None, small_model: Callable[..., Model]) -> None:
    model = small_model("tailwise")
    target = Prevalence(model.vocabulary, np.full(8, 0.15))
    steering = steer(model, target)
    condition = Criteria.of("C6")
    rejected = condition.patients(sample(model, 4000, 5, steering))
    assert p_value(rejected, sample_given(model, _N, 7, condition, steering)) > 1e-3


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_so_is_that_of_another_temperature(method: str, never_plain: None, small_model: Callable[..., Model]) -> None:
    model, rule, condition = small_model(method), SampleRule(temperature=0.8, min_codes=1), Criteria.of("C6|C4")
    found = sample_given(model, _N, 7, condition, rule=rule)
    assert found.card["effort"]["way"] == "first passage"
    assert p_value(condition.patients(sample(model, 8000, 5, rule=rule)), found) > 1e-3


def test_the_same_seed_gives_the_same_bytes_and_nobody_comes_twice(
    never_plain: None, small_model: Callable[..., Model]
) -> None:
    model, condition = small_model("adapcla"), Criteria.of("C6")
    one, two = (sample_given(model, 300, 7, condition) for _ in range(2))
    assert one.fingerprint == two.fingerprint and one.card == two.card
    assert one.fingerprint != sample_given(model, 300, 8, condition).fingerprint
    generator = Generator(model.settings, model)
    assert generator.sample(300, seed=7, having="C6", batch_size=17).fingerprint == one.fingerprint


@pytest.fixture
def rare_model(small_model: Callable[..., Model]) -> Model:
    """Codes that do not know of each other, of which C7 is in one of ten thousand visits."""
    model, share = small_model("marginal"), 1e-4
    logits = model.network.logits
    assert isinstance(logits, torch.Tensor)
    logits[7] = float(np.log(share / (1 - share)))
    return model


def test_a_rare_code_takes_a_hundredth_of_the_visits(rare_model: Model) -> None:
    effort = sample_given(rare_model, 400, 1, Criteria.of("C7")).card["effort"]
    assert effort["way"] == "first passage"
    assert effort["visits"] * 200 < effort["visits_by_rejection"]


def test_a_code_that_is_drawn_after_others_takes_few_visits_too(small_model: Callable[..., Model]) -> None:
    model = small_model("gpt")
    assert isinstance(model.network, GPT)
    with torch.no_grad():
        model.network.bias[model.network.rank_of_code[7]] -= 7.0
    effort = sample_given(model, 400, 1, Criteria.of("C7")).card["effort"]
    assert effort["visits"] * 5 < effort["visits_by_rejection"]


def test_a_common_condition_is_drawn_and_rejected(small_model: Callable[..., Model]) -> None:
    effort = sample_given(small_model("adapcla"), 100, 1, Criteria.of("C0|C1|C2|C3")).card["effort"]
    assert effort["way"] == "plain" and effort["clipped"] == 0


def test_unusual_rules_reject_too(small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch) -> None:
    model, rule = small_model("adapcla"), SampleRule(min_codes=2)
    found = sample_given(model, 20, 1, Criteria.of("C7"), rule=rule)
    assert found.card["effort"]["way"] == "plain" and found.codes_per_visit.min() >= 2
    monkeypatch.setattr(conditional, "MOST_PROPOSALS", 2000)
    with pytest.raises(AdapclaError, match="after 2,048 proposals"):
        sample_given(model, 5000, 1, Criteria.of("C7"), rule=rule)


def test_parts_that_exclude_each_other_are_said(rare_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "MOST_IN_VAIN", 5000)
    with pytest.raises(AdapclaError, match="exclude each other"):
        sample_given(rare_model, 5, 1, Criteria.of(["C7", "C6"], without="C0|C1|C2|C3|C4|C5", visits="3", at="first"))


def proposed(low: int, weight: float, share: float = 1.0) -> Proposed:
    """A thousand proposals, all of this weight."""
    none, ones = np.zeros((1000, 0), dtype=np.int64), np.ones(1000, dtype=np.int64)
    rolled = Rolled(np.full(1000, low // 1000, dtype=np.int32), ones, ones, 0 * ones, none)
    return Proposed(1000, 1000, rolled, low + np.arange(1000), 0.0 * ones, weight * ones, share * ones)


def test_a_pool_takes_by_weight_and_all_by_one_bound() -> None:
    pool = Pool(key=1, beyond=0.0)
    for low, weight in ((0, 0.2), (1000, 0.8)):
        pool.add(proposed(low, weight))
    assert pool.bound == 0.8 and pool.enough(1200) and not pool.enough(1400)
    taken = pool.take(5000).codes
    assert abs((taken == 0).sum() - 250) < 60 and (taken == 1).sum() == 1000
    assert pool.clipped_share == 0 and pool.probability == pytest.approx(0.5)
    assert round(pool.effective) == round(5000**2 / 17000)


def test_what_was_seldom_drawn_counts_for_those_that_were_not() -> None:
    pool = Pool(key=1, beyond=0.0)
    part = proposed(0, 0.2, share=0.5)
    half = np.arange(0, 1000, 2)
    pool.add(part.of(half, 1000, 0))
    assert pool.probability == pytest.approx(0.2)


def test_the_bound_clips_what_it_may() -> None:
    pool, weight = Pool(1, 0.05), np.random.default_rng(1).exponential(size=1000) ** 2 / 100
    pool.add(proposed(0, 1.0)._replace(high=weight))
    assert np.isclose(np.maximum(weight - pool.bound, 0).sum() / weight.sum(), 0.05)
    assert np.isclose(pool.clipped_share, 0.05)


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_choices_may_be_asked_for(method: str, small_model: Callable[..., Model], never_plain: None) -> None:
    """Of a choice group a visit holds one code at most: to hold one is to lack the others."""
    tokens = ("A", "B", "END/died", "END/home", "KIND/elective", "KIND/home")
    patients = [[["A", "KIND/home", "END/home"], ["KIND/elective", "B"]], [["B", "END/died"]], [["A", "B"]]] * 60
    model = small_model(method, train=Cohort.of(patients, tokens), spread=1.0)
    plain = sample(model, 8000, 5)
    for having in ("END/died", "KIND/elective|END/died", "B|KIND/home"):
        condition = Criteria.of(having)
        found = sample_given(model, 1500, 7, condition)
        assert condition.matches(found).all()
        one, two = (cohort.patient_matrix().toarray() > 0 for cohort in (condition.patients(plain), found))
        share = (one.mean(axis=0) + two.mean(axis=0)) / 2
        error = np.sqrt(share * (1 - share) * (1 / len(one) + 1 / len(two))) + 1e-3
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4 * error).all()


def test_effort_is_said_and_kept() -> None:
    effort = conditional.Effort("first passage", 100, 50, 5.04, 200, 1e6, 1.23456e-4, 0.0)
    assert "1,000,000" in effort.text and effort.as_card()["effective"] == 5.0
    assert "50 fulfil" in replace(effort, way="plain").text


@pytest.fixture
def model(small_model: Callable[..., Model]) -> Model:
    """C7 was never seen, C6 in five visits."""
    made = small_model("adapcla")
    share = np.where(np.arange(8) == 7, 0.0, 0.2)
    share[6] = 5 / 600
    return replace(made, prevalence=Prevalence(made.vocabulary, share, 600))


def refused(model: Model, said: str, condition: Criteria, **more: object) -> None:
    with pytest.raises(UsageError, match=said):
        Request(model, condition, **more).check()  # type: ignore[arg-type]


def test_what_training_never_showed_is_refused_with_what_is_nearest(model: Model) -> None:
    refused(model, r"C7: no training visit holds it[\s\S]*nearest that it has seen: C0", Criteria.of("C7"))
    Request(model, Criteria.of("C7|C6")).check()


def test_what_nobody_can_fulfil_is_refused(model: Model) -> None:
    refused(model, "with and without C1 at once", Criteria.of("C1", without="C1|C2"))
    refused(model, "the longest record of this model has 3", Criteria.of(visits="4.."))
    refused(model, "expected one of F, M", Criteria.of("C1", where=[("sex", "X")]))
    never = Steering(model.vocabulary, np.where(np.arange(8) == 1, -np.inf, 0.0), model.prevalence)
    refused(model, "never comes", Criteria.of("C1"), steering=never)


def test_a_shareable_model_refuses_what_too_few_training_patients_show(model: Model) -> None:
    shared = replace(model, shareable=True, prevalence=model.prevalence.suppress_small_counts())
    Request(model, Criteria.of("C6")).check()
    refused(shared, "fewer than 11 training patients", Criteria.of("C6"))
    Request(shared, Criteria.of("C1")).check()
    with pytest.raises(UsageError, match="made to be shared"):
        Request(shared, Criteria.of(["C1", "C2"])).check_company(0.01)
    Request(shared, Criteria.of(["C1", "C2"])).check_company(0.1)
    Request(model, Criteria.of(["C1", "C2"])).check_company(0.01)


def test_the_training_patients_decide_where_they_are_at_hand(model: Model) -> None:
    sex = Attribute(np.zeros(40, dtype=np.int16), ("F", "M"))
    train = Cohort.of([[["C1"]]] * 20 + [[["C2"]]] * 20, model.vocabulary, attributes={"sex": sex})
    said = r"no training patient is with C1; with C2\nnearest: with C1: 20 patients; with C2: 20 patients"
    refused(model, said, Criteria.of(["C1", "C2"]), train=train)
    few = train.subset(np.r_[0:5, 20:40])
    Request(model, Criteria.of("C1"), train=few).check()
    refused(replace(model, shareable=True), "fewer than 11", Criteria.of("C1"), train=few)
    refused(model, "with C1: fewer than 11", Criteria.of(["C1", "C2"]), train=few)


def test_the_share_of_the_attributes_counts(model: Model) -> None:
    shared = replace(model, shareable=True)
    Request(shared, Criteria.of("C1")).check_company(0.05)  # 15 of 300 patients, of whom about half are women
    with pytest.raises(UsageError, match="made to be shared"):
        Request(shared, Criteria.of("C1", where=[("sex", "F")])).check_company(0.05)
