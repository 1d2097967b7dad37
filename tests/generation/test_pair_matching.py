"""Pairs with a rare code come as often as they should after the pilots, or the pilots are taken back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.data.split import Split
from adapcla.generation import Generator, calibration, generator_for
from adapcla.generation.calibration import PairRounds, calibrate, fold_prevalence
from adapcla.generation.model import Model
from adapcla.generation.pair_matching import PairMatching, company_of
from adapcla.generation.sampling import sample
from adapcla.io import simulator as planted


@pytest.fixture(scope="module")
def world() -> Split:
    return planted.simulate(patients=1500, codes=150, seed=2).split(seed=4)


def fitted(world: Split, **changes: object) -> Generator:
    settings: dict[str, object] = {
        "width": 16,
        "layers": 1,
        "heads": 2,
        "passes": 3,
        "batch_size": 64,
        "calibration_rounds": 0,
    }
    settings["order"] = "frequent"
    generator = generator_for("tailwise", **settings | changes)
    generator.fit(world.train, world.valid)
    return generator


def rounds_of(model: Model, train: Cohort, loss: Callable[[], float] = lambda: 0.0) -> PairRounds:
    """Rounds of matching that cost what is said, nothing if nothing is."""
    matching = PairMatching.of(model, train)
    assert matching is not None
    return PairRounds(model, matching, loss)


def kept_share(generator: Generator, train: Cohort, seed: int) -> float:
    """Kept pairs with a rare code in a new sample, beside how many its codes should bring."""
    matching = PairMatching.of(generator.model, train)
    assert matching is not None
    return matching.correct(generator.sample(3000, seed))


def test_kept_pairs_come_nearer_to_what_training_holds(world: Split) -> None:
    """Belief is made too weak by hand: rare codes hear half of what they learned from those that they met."""
    generator = fitted(world)
    company = company_of(generator.model)
    assert company is not None
    with torch.no_grad():
        company.belief.mul_(0.3)
        company.rarity.zero_()
    before = {name: value.clone() for name, value in generator.network_.state_dict().items()}
    weak = kept_share(generator, world.train, seed=8)
    generator.network_.load_state_dict(before)
    fold_prevalence(generator.model, world.train, 6, rounds_of(generator.model, world.train))
    assert weak < 0.85
    assert abs(kept_share(generator, world.train, seed=9) - 1) < 0.5 * (1 - weak)


def test_frequent_codes_hear_what_they_heard(world: Split) -> None:
    generator = fitted(world)
    company = company_of(generator.model)
    assert company is not None
    fold_prevalence(generator.model, world.train, 2, rounds_of(generator.model, world.train))
    emphasis = company.emphasis
    assert float(emphasis.by_speaker[:-1].abs().max()) > 0.05
    assert not emphasis.by_speaker[-1].any() and not emphasis.by_nearness[-1].any()


def test_prevalences_have_the_last_word(world: Split) -> None:
    """Pairs are corrected in the first rounds; the last three are for prevalences alone, fewer of few, one at least."""
    matching = fitted(world, passes=1)
    for rounds, with_pairs in ((9, 6), (4, 3), (1, 0)):
        pairs = rounds_of(matching.model, world.train)
        history = fold_prevalence(matching.model, world.train, rounds, pairs)
        assert ["pairs" in told for told in history] == [True] * with_pairs + [False] * (rounds - with_pairs)


def test_pairs_are_matched_as_far_as_it_is_affordable(world: Split) -> None:
    """A step that costs too much is taken back, and the next are half as long until they are too short to matter."""
    model = fitted(world, passes=1).model
    losses = iter([10.0, 10.05, 10.09, 10.07, 10.09, 10.09])  # before the first step, and after each
    history = fold_prevalence(model, world.train, 12, rounds_of(model, world.train, lambda: next(losses)))
    assert [told.get("taken back") for told in history] == [None, 1.0, None, 0.5, 0.25, None, None, None]
    assert ["pairs" in told for told in history] == [True] * 5 + [False] * 3


def test_a_step_that_is_taken_back_leaves_nothing(world: Split) -> None:
    model = fitted(world, passes=1).model
    losses = iter([10.0, 11.0])
    pairs = rounds_of(model, world.train, lambda: next(losses))
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    moved = [table.copy() for table in pairs.matching.moved]
    assert pairs.correct(sample(model, 2000, seed=3))["taken back"] == 1.0
    assert all(torch.equal(value, before[name]) for name, value in model.network.state_dict().items())
    assert all(np.array_equal(one, other) for one, other in zip(pairs.matching.moved, moved, strict=True))


def test_half_a_step_goes_half_the_way(world: Split) -> None:
    moves = []
    for step in (1.0, 0.5):
        model = fitted(world, passes=1).model
        matching = rounds_of(model, world.train).matching
        matching.correct(sample(model, 2000, seed=3), step)
        moves.append(matching.moved.near)
    inside = np.abs(moves[0]) < 2.4
    assert np.abs(moves[0]).max() > 0.01
    assert moves[1][inside] == pytest.approx(moves[0][inside] / 2)


def test_fits_of_other_seeds_have_other_pilots(world: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[list[int]] = []
    for seed in (1, 2):
        model, drawn = fitted(world, passes=1, seed=seed).model, list[int]()
        plain = calibration.sample

        def noted(*given: Any, plain: Any = plain, drawn: list[int] = drawn) -> Cohort:
            drawn.append(given[2])
            return plain(*given)

        with monkeypatch.context() as patched:
            patched.setattr(calibration, "sample", noted)
            fold_prevalence(model, world.train, 2)
        seeds.append(drawn)
    assert len(set(seeds[0] + seeds[1])) == 4


@pytest.mark.parametrize("limit", ["_DEARER", "_OTHER_SIZE"])
def test_what_costs_too_much_is_taken_back(world: Split, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing may be paid, the model is that of prevalences alone, to the bit."""
    matched, plain = fitted(world), fitted(world)
    fold_prevalence(plain.model, world.train, 2)
    monkeypatch.setattr(calibration, limit, -1.0)
    calibrate(matched.model, world.train, world.valid, 2)
    assert matched.model.facts["pairs matched"]["kept"] is False
    one, other = matched.network_.state_dict(), plain.network_.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_visits_keep_their_size_and_the_card_says_what_it_cost(world: Split) -> None:
    """The small world in which visits doubled when pairs of frequent codes were corrected too."""
    generator = fitted(world, calibration_rounds=4)
    facts = generator.model.facts["pairs matched"]
    assert facts["kept"] == (
        facts["loss after"] <= 1.01 * facts["loss before"] and abs(facts["size of visits"] - 1) <= 0.03
    )
    drawn = generator.sample(3000, seed=5)
    assert drawn.codes_per_visit.mean() == pytest.approx(world.train.codes_per_visit.mean(), rel=0.05)


def test_a_model_that_keeps_no_pair_has_nothing_to_match(world: Split) -> None:
    build = partial(generator_for, width=8, layers=1, heads=2, passes=1, calibration_rounds=1)
    for generator in (build("adapcla"), build("tailwise", company=10**6)):
        generator.fit(world.train, world.valid)
        assert company_of(generator.model) is None and PairMatching.of(generator.model, world.train) is None
        assert "pairs matched" not in generator.model.facts and generator.model.facts["calibration"]


def test_other_patients_with_the_same_kinds_of_pairs_set_the_same_tables() -> None:
    """Two cohorts that differ in which one-patient pair a patient holds, of one kind: to the bit the same tables."""
    tokens = ["A", "B", "C", "D", "E", "F"]
    others = [[["A", "B"]]] * 60 + [[["A", "C"]], [["B", "D"]]] * 6 + [[["E"]], [["F"]]] * 3
    tables = []
    for own in ([["A", "E"], ["B", "F"]], [["A", "F"], ["B", "E"]]):
        cohort = Cohort.of([*others, own], tokens)
        torch.manual_seed(0)
        generator = generator_for(
            "tailwise",
            width=8,
            layers=1,
            heads=2,
            passes=1,
            blocks=6,
            calibration_rounds=0,
            hierarchy=False,
            kinship=False,
        )
        generator.fit(Cohort.of(others, tokens), cohort)
        matching = PairMatching.of(generator.model, cohort)
        assert matching is not None
        matching.correct(Cohort.of(others[::2], tokens))
        tables.append(matching.company.emphasis.by_speaker.clone())
    assert torch.equal(tables[0], tables[1])
    assert np.isfinite(tables[0].numpy()).all()


def test_a_training_patient_is_no_other_to_themselves(world: Split) -> None:
    """A pair of as many patients as it takes is one of few others to each of them, and a known one to a new patient."""
    matching = PairMatching.of(fitted(world, passes=1).model, world.train)
    assert matching is not None
    pairs = matching.counted
    as_it_takes = pairs.patients == matching.company.least_patients
    times = np.where(as_it_takes, pairs.visits, 0.0)
    assert times.sum() > 10
    of_counted, of_new = (matching._by_kind(pairs, times, counted) for counted in (True, False))
    for kinds in (of_counted.near, of_counted.speaker, of_new.kept, of_new.partner):
        assert kinds.sum() == times.sum()
    assert not of_new.near.any() and not of_new.speaker.any()
