"""References of a known law: the tail can be learned from real patients, families alone do not give it away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapcla import evaluate
from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import metrics_of
from adapcla.evaluation.scores import Row
from adapcla.io import simulator as planted


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate()


@pytest.fixture(scope="module")
def blurred(world: Cohort) -> dict[tuple[str, str], Row]:
    """Tail scores at the default size, families alone in the place of synthetic patients."""
    split = world.split(seed=4)
    made = planted.family_only(world, split.test.n_patients, seed=1)
    rows = evaluate(split.train, split.test, made, suites=["tail"], quick=True).rows
    return {(row.metric, row.stratum): row for row in rows}


@pytest.mark.parametrize("metric", ["tail_pair_seen", "tail_topk_jac"])
@pytest.mark.parametrize(("held_out", "stratum"), [("", "all"), ("", "matched"), ("_heldout", "matched")])
def test_real_patients_are_three_times_chance_in_the_tail(blurred, metric, held_out, stratum):
    key = metric + held_out
    row = blurred[key, stratum] if (key, stratum) in blurred else blurred[key, "halves"]
    assert row.real_test >= 3 * row.marginal
    # Which families come together does not say which codes do.
    assert row.value < row.real_test / 3


def test_the_law_itself_has_the_company_and_another_law_has_not(world, blurred):
    split = world.split(seed=4)
    n = split.test.n_patients
    right, wrong = (
        Comparison.of(split.train, split.test, made, None, seed=1, quick=True)
        for made in (planted.ideal(world, n, seed=1), planted.simulate(n, law_seed=8))
    )
    for metric in metrics_of(["tail"]):
        if metric.key in ("tail_pair_seen", "tail_topk_jac"):
            row = blurred[metric.key, "all"]
            assert metric.compute(right)["all"].value > 3 * row.marginal
            assert metric.compute(wrong)["all"].value < row.real_test / 3


def test_ideal_patients_follow_the_law_and_are_nobody_of_the_cohort():
    cohort = planted.simulate(400, 150, seed=1, population="shifted")
    fresh = planted.ideal(cohort, 400, seed=1)
    assert fresh.card["arguments"] == {**cohort.card["arguments"], "seed": fresh.card["arguments"]["seed"]}
    assert fresh.fingerprint != cohort.fingerprint
    assert fresh.fingerprint == planted.ideal(cohort.split(seed=4).test, 400, seed=1).fingerprint
    same = fresh.attributes["sex"].values == cohort.attributes["sex"].values
    assert 0.4 < same.mean() < 0.6


def test_family_only_keeps_families_and_prevalences_and_loses_pairs():
    cohort, law = planted.simulate(6000, 300, seed=1), planted.law(300)
    exact, made = planted.ideal(cohort, 6000, seed=1), planted.family_only(cohort, 6000, seed=1)
    category = law.layout.category
    families = np.sort(exact.visit_of_entry * 1000 + category[exact.codes])
    assert np.array_equal(np.sort(made.visit_of_entry * 1000 + category[made.codes]), families)
    reasons = np.isin(exact.codes, law.layout.reasons)
    assert np.array_equal(made.codes[np.isin(made.codes, law.layout.reasons)], exact.codes[reasons])
    inside = np.diff(made.visit_of_entry) == 0
    assert (np.diff(made.codes)[inside] > 0).all()
    common = exact.visit_counts > 100
    assert np.corrcoef(np.log(exact.visit_counts[common]), np.log(made.visit_counts[common] + 1))[0, 1] > 0.95
    index = law.vocabulary.index
    first, second = (np.array([index[getattr(p, name)] for p in law.pairs()[:500]]) for name in ("code", "partner"))
    together = [c.matrix().tocsc()[:, first].multiply(c.matrix().tocsc()[:, second]).sum() for c in (exact, made)]
    assert together[1] < together[0] / 3


def test_references_of_whole_visits_are_whole_visits_of_the_same_law():
    cohort = planted.simulate(400, 60, seed=1, population="shifted", whole=True)
    fresh = planted.ideal(cohort.split(seed=4).test, 400, seed=1)
    assert fresh.card["arguments"] == {**cohort.card["arguments"], "seed": fresh.card["arguments"]["seed"]}
    assert fresh.vocabulary == cohort.vocabulary
    assert fresh.fingerprint != cohort.fingerprint
    blurred = planted.family_only(cohort, 400, seed=1)
    law = planted.law(60, population="shifted")
    place = fresh.vocabulary.positions(law.vocabulary.tokens)
    disorders = place[law.layout.category >= 0]
    moved, others = np.isin(blurred.codes, disorders), np.isin(fresh.codes, disorders)
    # Kinds, endings, drugs and values stay where they are, with their numbers; disorders became siblings.
    assert np.array_equal(blurred.codes[~moved], fresh.codes[~others])
    assert np.array_equal(blurred.visit_of_entry[~moved], fresh.visit_of_entry[~others])
    assert np.array_equal(blurred.values[~moved], fresh.values[~others], equal_nan=True)
    assert np.isnan(blurred.values[moved]).all()
    assert (blurred.codes[moved] != fresh.codes[others]).mean() > 0.2
    assert planted.whole_law_of(blurred) is None


@pytest.mark.parametrize(("whole", "law_of"), [(False, planted.law_of), (True, planted.whole_law_of)])
def test_patients_of_another_version_of_the_world_have_no_law(whole, law_of):
    cohort = planted.simulate(5, 60, whole=whole)
    card = {**cohort.card, "arguments": {**cohort.card["arguments"], "world": planted.WORLD - 1}}
    assert law_of(cohort) is not None
    assert law_of(replace(cohort, card=card)) is None


@pytest.mark.parametrize("reference", [planted.ideal, planted.family_only])
def test_only_planted_patients_have_a_law(reference):
    with pytest.raises(InputError, match="planted world did not draw"):
        reference(Cohort.of([[["A"]]]), 5, seed=1)
