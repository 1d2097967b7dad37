"""Sampling: records visit by visit, blocks, rules and cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from adapcla import evaluate
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.rules import Rules
from adapcla.errors import AdapclaError, InputError, UsageError
from adapcla.generation import Generator, generator_for
from adapcla.generation.sampler import (
    BLOCK,
    Rolled,
    SampleRule,
    blocks,
    cohort_of,
    join,
    redrawn_card,
    roll,
    rules_for,
)
from adapcla.io import simulator as planted
from adapcla.models.base import Drawn, DrawRule, Entered, Network, Visit
from adapcla.models.batch import CodeOrder
from adapcla.models.draws import Noise

_NOBODY = AttributeDistribution((), (), np.zeros((1, 0), dtype=np.int64), np.array([1]))


class _Counting:
    """Patient number p has p + 1 visits; its visit t holds code t, and its third visit is empty."""

    order = CodeOrder(np.arange(9))
    last_position: int | None = None

    def begin(self, attributes: torch.Tensor, noise: Noise) -> tuple[NDArray[np.int64], int]:
        return noise.patients, 0

    step, _visit = Network.step, Network._visit

    def enter(self, state: Any, noise: Noise, certain: bool) -> Entered:
        rows = np.flatnonzero(certain | (state[0] >= state[1]))
        return Entered(rows, np.full(len(rows), 10 * state[1]), self.select(state, rows))

    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Visit:
        n = len(state[0])
        if state[1] == 2:
            return Visit(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        return Visit(np.arange(n), np.full(n, state[1]))

    def absorb(self, state: Any, drawn: Drawn, gap: NDArray[np.int64]) -> Any:
        return state[0], state[1] + 1

    def select(self, state: Any, rows: NDArray[np.int64]) -> Any:
        return state[0][rows], state[1]


def test_records_end_when_the_network_says_so_or_at_an_empty_visit() -> None:
    """Patients 0, 1, 2 … have 1, 2, 2, 2 … visits, because the third is empty."""
    network = _Counting()
    patients = np.arange(4)
    state = network.begin(torch.zeros(4, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((4, 0), dtype=np.int64), DrawRule(), 1, 9)  # type: ignore[arg-type]
    assert out.lengths.tolist() == [1, 2, 2, 2]
    assert out.codes.tolist() == [0, 0, 1, 0, 1, 0, 1]
    assert out.gaps.tolist() == [0, 0, 10, 0, 10, 0, 10]


class _Dying(_Counting):
    """Nobody lives on after code 0."""

    last_position = 0


def test_death_ends_a_record_whatever_the_network_would_say() -> None:
    network, patients = _Dying(), np.arange(4)
    state = network.begin(torch.zeros(4, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((4, 0), dtype=np.int64), DrawRule(), 1, 9)  # type: ignore[arg-type]
    assert out.lengths.tolist() == [1, 1, 1, 1]


def test_a_visit_that_never_fills_is_an_error_with_a_remedy() -> None:
    network = _Counting()
    state = (np.array([5]), 2)
    with pytest.raises(AdapclaError, match="to do"):
        roll(network, state, np.array([5]), np.zeros((1, 0), dtype=np.int64), DrawRule(), 1, 2, min_codes=1)  # type: ignore[arg-type]


class _Reluctant(_Counting):
    """A network whose visits are empty 97 times in 100."""

    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Visit:
        who = np.flatnonzero(noise.uniform(1, 8)[:, 0] < 0.03)
        return Visit(who, np.zeros(len(who), dtype=np.int64))


def test_a_first_visit_that_is_nearly_always_empty_is_drawn_until_it_is_not() -> None:
    """Of 300 patients 0.97^60 = 16 % would get no visit in sixty draws; in 1,200 none would, but for one in 10^13."""
    network, patients = _Reluctant(), np.arange(300)
    state = network.begin(torch.zeros(300, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((300, 0), dtype=np.int64), DrawRule(), 1, 1)  # type: ignore[arg-type]
    assert (out.lengths == 1).all()


def test_blocks_are_cut_at_the_number_asked_for() -> None:
    parts = list(blocks(_Counting(), _NOBODY, DrawRule(), 1, BLOCK + 3, 9, 0))  # type: ignore[arg-type]
    assert [len(part.lengths) for part in parts] == [BLOCK, 3]
    whole = join(parts)
    assert whole.lengths.sum() == len(whole.visit_sizes)


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
    cohort = cohort_of(replace(plain.model, attribute_distribution=law), rolled, {})
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
