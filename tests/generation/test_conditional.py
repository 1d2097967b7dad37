"""Patients of a condition: the law of throwing away, for every kind of condition and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.data import Cohort, Prevalence
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError
from adapcla.generation import Generator, appointments, conditional, pilots, proposals
from adapcla.generation.conditional import Pool, sample_given
from adapcla.generation.model import Model
from adapcla.generation.pilots import weight_bound
from adapcla.generation.sampler import Rolled, SampleRule, sample
from adapcla.generation.steering import steer

CONDITIONS = {
    "a code": Criteria.of("C6"),
    "any of two, at last": Criteria.of("C6|C5", at="last"),
    "two codes": Criteria.of(["C4", "C3"]),
    "a family at first": Criteria.of("C*6", at="first"),
    "early, long, female, and not another": Criteria.of(
        "C5", without="C1", where=[("sex", "F")], visits="2..3", within=2
    ),
}
METHODS = ("adapcla", "tailwise", "gpt", "halo")
_N_PLAIN, _N = 12_000, 500


@pytest.fixture(scope="module", params=METHODS)
def world(request: pytest.FixtureRequest, small_model: Callable[..., Model]) -> tuple[Model, Cohort]:
    """A model and many of its plain patients."""
    model = small_model(request.param)
    return model, sample(model, _N_PLAIN, seed=5)


@pytest.fixture
def always_steered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals are steered although the condition is not rare, so that plain patients can be counted beside."""
    monkeypatch.setattr(conditional, "COMMON", 1.1)
    monkeypatch.setattr(conditional, "NO_GAIN", np.inf)


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
def test_patients_follow_the_law_of_throwing_away(name: str, world: tuple[Model, Cohort], always_steered: None) -> None:
    model, plain = world
    condition = CONDITIONS[name]
    thrown = condition.patients(plain)
    found = sample_given(model, _N, 7, condition)
    assert found.n_patients == _N
    assert condition.matches(found).all()
    assert found.card["effort"]["way"] == "steered"
    assert p_value(thrown, found) > 1e-3
    female = 1.0 if not condition.where else float((plain.attributes["sex"].values == 0).mean())
    counted = thrown.n_patients / _N_PLAIN / female
    error = np.sqrt(counted * (1 - counted) / _N_PLAIN / female + counted**2 / found.card["effort"]["effective"])
    assert abs(found.card["effort"]["probability"] - counted) < 4 * error


def test_the_test_can_fail(world: tuple[Model, Cohort], always_steered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without weights the patients are those of the steered proposals, and that is seen."""
    model, plain = world
    monkeypatch.setattr(proposals, "log_weights", lambda model, course, rolled, rows: np.zeros(len(rows)))
    monkeypatch.setattr(pilots, "_first_guess", lambda plain: np.array([6.0, 6.0]))
    monkeypatch.setattr(pilots, "_NEAR", (0.0, 1.0))
    condition = CONDITIONS["two codes"]
    assert p_value(condition.patients(plain), sample_given(model, 4 * _N, 7, condition)) < 1e-3


def test_the_test_can_fail_for_appointed_visits(
    world: tuple[Model, Cohort], always_steered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without weights every branch counts alike, also in visits in which the code does not belong."""
    model, plain = world
    monkeypatch.setattr(appointments, "log_weights", lambda model, course, rolled, rows: np.full(len(rows), -3.0))
    condition = CONDITIONS["a code"]
    assert p_value(condition.patients(plain), sample_given(model, 4 * _N, 7, condition)) < 1e-3


def test_the_law_of_a_steered_model_is_kept_too(always_steered: None, small_model: Callable[..., Model]) -> None:
    model = small_model("tailwise")
    target = Prevalence(model.vocabulary, np.full(8, 0.15))
    steering = steer(model, target)
    condition = Criteria.of("C6")
    thrown = condition.patients(sample(model, 4000, 5, steering))
    assert p_value(thrown, sample_given(model, _N, 7, condition, steering)) > 1e-3


def test_the_same_seed_gives_the_same_bytes_and_nobody_comes_twice(
    always_steered: None, small_model: Callable[..., Model]
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
    assert effort["way"] == "steered"
    assert effort["visits"] * 200 < effort["visits_by_rejection"]
    assert effort["effective"] > 0.25 * effort["fulfilled"]


def test_where_steering_gains_nothing_patients_are_drawn_and_thrown_away(
    small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "COMMON", 1.1)
    monkeypatch.setattr(conditional, "NO_GAIN", 1e-9)
    drawn = sample_given(small_model("adapcla"), 600, 1, Criteria.of("C6"))  # more than one block of proposals
    assert Criteria.of("C6").matches(drawn).all() and drawn.n_patients == 600
    assert (drawn.card["effort"]["way"], drawn.card["effort"]["clipped"]) == ("plain", 0.0)


def test_a_common_condition_is_drawn_and_thrown_away(small_model: Callable[..., Model]) -> None:
    effort = sample_given(small_model("adapcla"), 100, 1, Criteria.of("C0|C1|C2|C3")).card["effort"]
    assert effort["way"] == "plain" and effort["clipped"] == 0


def test_a_network_without_exact_steps_throws_away(
    monkeypatch: pytest.MonkeyPatch, small_model: Callable[..., Model]
) -> None:
    model, condition = small_model("eva", heads=None), Criteria.of("C7", at="first")
    found = sample_given(model, 20, 1, condition)
    assert found.card["effort"]["way"] == "plain" and condition.matches(found).all()
    monkeypatch.setattr(conditional, "MOST_PROPOSALS", 2000)
    with pytest.raises(AdapclaError, match="after 2,048 proposals"):
        sample_given(model, 5000, 1, condition)


def test_unusual_rules_throw_away_too(small_model: Callable[..., Model]) -> None:
    found = sample_given(small_model("adapcla"), 20, 1, Criteria.of("C7"), rule=SampleRule(min_codes=2))
    assert found.card["effort"]["way"] == "plain" and found.codes_per_visit.min() >= 2


def test_parts_that_exclude_each_other_are_said(rare_model: Model) -> None:
    with pytest.raises(AdapclaError, match="exclude each other"):
        sample_given(rare_model, 5, 1, Criteria.of(["C7", "C6"], without="C0|C1|C2|C3|C4|C5", visits="3", at="first"))


def test_a_low_effective_sample_size_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    effort = conditional.Effort("steered", 100, 50, 5.0, 100, 1e6, 1e-4)
    assert effort.low
    conditional.tell(effort)
    assert "below a quarter" in capsys.readouterr().err
    conditional.tell(replace(effort, effective=40.0))
    assert "below a quarter" not in capsys.readouterr().err


def test_a_pool_takes_by_weight_and_judges_all_by_one_bound() -> None:
    none = np.zeros((1000, 0), dtype=np.int64)
    ones = np.ones(1000, dtype=np.int64)
    pool = Pool(key=1, beyond=0.0)
    for low, weight in ((0, 1.0), (1000, 4.0)):
        rolled = Rolled(np.full(1000, low // 1000, dtype=np.int32), ones, ones, 0 * ones, none)
        pool.add(rolled, low + np.arange(1000), np.full(1000, weight), 1000)
    assert pool.enough(1200) and not pool.enough(1400)
    taken = pool.taken(5000).codes
    assert abs((taken == 0).sum() - 250) < 60 and (taken == 1).sum() == 1000
    assert pool.clipped == 0 and round(pool.effective) == round(5000**2 / 17000)


def test_the_bound_clips_what_it_may() -> None:
    weight = np.random.default_rng(1).exponential(size=500) ** 2
    bound = weight_bound(weight, 0.05)
    assert np.isclose(np.maximum(weight - bound, 0).sum() / weight.sum(), 0.05)
