"""From rolled patients to a cohort, and what its card says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapcla import evaluate
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.rules import Rules
from adapcla.errors import InputError, UsageError
from adapcla.generation import Generator, generator_for
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of, redrawn_card, rules_for
from adapcla.io import simulator as planted


def test_the_default_rule_adds_nothing() -> None:
    rule = SampleRule()
    assert (rule.temperature, rule.codes_per_visit, rule.min_codes, rule.where) == (1.0, "natural", 0, ())


def test_days_are_summed_gaps_from_each_first_visit(plain: Generator) -> None:
    rolled = Rolled(
        np.array([0, 1, 0], dtype=np.int32),
        np.array([1, 1, 1]),
        np.array([2, 0, 1]),
        np.array([0, 30, 0]),
        np.array([[1], [1], [0]]),
    )
    law = AttributeDistribution(("sex",), (("F", "M"),), np.array([[1]]), np.array([1]))
    cohort = cohort_of(replace(plain.model, law=law), rolled, {})
    assert cohort.days is not None and cohort.days.tolist() == [0, 30, 0]
    assert cohort.attributes["sex"].values.tolist() == [0, -1]
    assert cohort.card["dropped"] == {"patients without visits": 1}


def never(model_of: Generator, n_codes: int, sex: str) -> Rules:
    """Rules by which patients of one sex hold none of the commonest codes of training."""
    model = model_of.model
    codes = np.sort(np.argsort(-model.prevalence.share)[:n_codes])
    return Rules(model.vocabulary, {"sex": {sex: codes}}, np.zeros((0, 2), dtype=np.int64))


def test_who_breaks_a_rule_is_drawn_again_and_everybody_else_stays(plain: Generator) -> None:
    rules = never(plain, 3, "female")
    before = plain.sample(300, seed=3)
    after = plain.sample(300, seed=3, rules=rules)
    broke = rules.any_broken(before)
    assert 0 < broke.sum() < 300
    assert not rules.any_broken(after).any()
    rows = list(zip(before.patients(), after.patients(), strict=True))
    assert all(one == two for (one, two), b in zip(rows, broke, strict=True) if not b)
    assert after.attributes["sex"].values.tolist() == before.attributes["sex"].values.tolist()
    assert after.card["rules"]["drawn again"] == broke.sum()
    assert after.card["rules"]["still breaking one"] == 0


def test_patients_drawn_again_do_not_depend_on_how_many_are_wanted(fitted: Generator) -> None:
    rules = never(fitted, 3, "female")
    many = fitted.sample(BLOCK + 200, seed=3, rules=rules)
    few = fitted.sample(50, seed=3, rules=rules)
    small = fitted.sample(BLOCK + 200, seed=3, rules=rules, batch_size=1)
    assert many.fingerprint == small.fingerprint
    assert list(few.patients()) == list(many.subset(np.arange(few.n_patients)).patients())


def test_a_rule_that_cannot_be_kept_is_counted_as_broken(plain: Generator) -> None:
    rules = never(plain, len(plain.model.vocabulary), "female")
    made = plain.sample(40, seed=3, rules=rules)
    women = int((made.attributes["sex"].values == made.attributes["sex"].categories.index("female")).sum())
    assert made.card["rules"]["drawn again"] == made.card["rules"]["still breaking one"] == women > 0


def test_without_rules_the_card_says_nothing_of_them() -> None:
    assert redrawn_card(SampleRule(), np.zeros(3, dtype=np.int64)) == {}
    assert "rules" not in repr(SampleRule()), "the key of a half-written sample would change"


def test_rules_are_learned_on_the_codes_of_the_model_and_never_for_a_private_one(plain: Generator, parts) -> None:
    assert rules_for(plain.model, parts.train).vocabulary == plain.model.vocabulary
    private = replace(plain.model, facts={**plain.model.facts, "privacy": {"epsilon": 8}})
    with pytest.raises(UsageError, match="private"):
        rules_for(private, parts.train)


def test_who_the_rules_were_counted_from_is_known_to_the_judge() -> None:
    """Rules of test patients, or of the whole, shape what is drawn: such a sample is not judged by test patients."""
    whole = planted.simulate(patients=300, codes=60, seed=1)
    train, valid, test = whole.split(seed=4)
    generator = generator_for("marginal").fit(train, valid)
    for cohort in (train, test, whole):
        synthetic = generator.sample(50, seed=1, rules=rules_for(generator.model, cohort))
        if cohort is train:
            assert evaluate(train, test, synthetic, suites=["fidelity"], quick=True).values()
        else:
            with pytest.raises(InputError, match="test patients took part"):
                evaluate(train, test, synthetic, suites=["fidelity"], quick=True)
