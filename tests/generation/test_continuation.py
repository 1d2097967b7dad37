"""Conditional generation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapcla.data import Attribute, Cohort, Prevalence
from adapcla.data.criteria import Criteria
from adapcla.data.split import Split
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation import Generator, continuation, generator_for
from adapcla.generation.continuation import as_known, continue_given, continue_records
from adapcla.generation.fitting import initial_model
from adapcla.generation.model import Model
from adapcla.generation.sampler import Visits, flat, sample
from adapcla.models.base import DrawRule
from adapcla.models.batch import pack
from adapcla.models.draws import Noise


def test_every_history_is_continued_as_often_as_asked(fitted: Generator, parts: Split) -> None:
    history = parts.test.subset(np.arange(12))
    found = fitted.continue_(history, visits=2, draws=20, seed=1)
    assert np.bincount(found.history_of).tolist() == [20] * 12
    assert found.drawn.n_patients == 240
    assert found.drawn.visits_per_patient.max() <= 2
    assert found.probabilities.shape == (12, history.n_codes)
    assert ((found.probabilities >= 0) & (found.probabilities <= 1)).all()


def test_draws_come_at_the_stated_probabilities(plain: Generator, parts: Split) -> None:
    """2,000 draws for three histories: frequencies within 5 standard errors of the exact probabilities."""
    history = parts.test.subset(np.flatnonzero(parts.test.visits_per_patient > 1)[:3])
    found = plain.continue_(history, visits=1, draws=2000, seed=1)
    first = np.asarray(found.drawn.patient_starts)[:-1]
    visits = found.drawn.matrix()[first].toarray()
    for row in range(3):
        frequency = visits[found.history_of == row].mean(axis=0)
        p = found.probabilities[row]
        assert (np.abs(frequency - p) <= 5 * np.sqrt(p * (1 - p) / 2000) + 2e-3).all()


def test_a_continuation_does_not_depend_on_company(plain: Generator, parts: Split) -> None:
    both = plain.continue_(parts.test.subset([3, 4]), draws=5, seed=1)
    again = plain.continue_(parts.test.subset([3, 4]), draws=5, seed=1)
    assert both.drawn.fingerprint == again.drawn.fingerprint
    assert both.probabilities == pytest.approx(again.probabilities)


@pytest.fixture
def histories(small_model: Callable[..., Model]) -> Cohort:
    """One history of one visit, and one of two."""
    sex = Attribute(np.array([0, 1], dtype=np.int16), ("F", "M"))
    vocabulary = small_model("adapcla").vocabulary
    return Cohort.of([[["C0", "C1"]], [["C1"], ["C2"]]], vocabulary, attributes={"sex": sex})


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt", "halo"])
def test_continuations_follow_the_distribution_of_rejection(
    method: str, small_model: Callable[..., Model], histories: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuation, "COMMON", 0.9)
    model, condition, draws = small_model(method), Criteria.of("C5", within=2), 150
    found = continue_given(model, histories, condition, draws, seed=3)
    assert found.drawn.n_patients == 2 * draws and condition.matches(found.drawn).all()
    effort = found.drawn.card["effort"]
    assert effort["proposals"] > 0 and effort["fulfilled"] >= 2 * draws and effort["effective"] > 0
    assert found.history_of.tolist() == [0] * draws + [1] * draws
    plain = continue_records(model, histories, visits=2, draws=2500, seed=4)
    for history in range(2):
        kept = plain.drawn.subset(np.flatnonzero(plain.history_of == history))
        thrown = condition.patients(kept)
        own = found.drawn.subset(np.arange(history * draws, (history + 1) * draws))
        assert thrown.n_patients > 20
        for counted in (
            lambda c: c.visits_per_patient == 2,
            lambda c: (c.patient_matrix()[:, [0]] > 0).toarray()[:, 0],
        ):
            one, two = (counted(cohort).mean() for cohort in (thrown, own))
            share = (one + two) / 2
            error = np.sqrt(share * (1 - share) * (1 / thrown.n_patients + 1 / draws)) + 1e-3
            assert abs(one - two) < 4 * error


def test_the_same_seed_gives_the_same_continuations(small_model: Callable[..., Model], histories: Cohort) -> None:
    model, condition = small_model("adapcla"), Criteria.of("C5")
    one, two = (continue_given(model, histories, condition, 10, seed=3).drawn for _ in range(2))
    assert one.fingerprint == two.fingerprint


def test_histories_are_put_into_the_words_of_the_model(small_model: Callable[..., Model]) -> None:
    age = Attribute(np.zeros(2, dtype=np.int16), ("old",))
    sex = Attribute(np.array([1, 0], dtype=np.int16), ("X", "F"))
    given = Cohort.of([[["C0", "other"]], [["C1"]]], attributes={"age": age, "sex": sex})
    known = as_known(small_model("adapcla"), given)
    assert list(known.patients()) == [[["C0"]], [["C1"]]]
    assert known.attributes["sex"].values.tolist() == [0, -1] and list(known.attributes) == ["sex"]


def test_what_cannot_be_continued_is_said(
    small_model: Callable[..., Model], histories: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="a history has its attributes already"):
        continue_given(small_model("adapcla"), histories, Criteria.of("C5", where=[("sex", "F")]), 5, 1)
    with pytest.raises(UsageError, match="cannot go on from a history"):
        continue_given(small_model("eva", heads=None), histories, Criteria.of("C5"), 5, 1)
    monkeypatch.setattr(continuation, "_MOST", 10)
    with pytest.raises(AdapclaError, match="continuations in"):
        continue_given(small_model("adapcla"), histories, Criteria.of(["C5", "C6", "C7"]), 50, 1)


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt", "halo", "lstm"])
def test_a_given_history_is_worth_what_a_drawn_one_is(method: str, small_model: Callable[..., Model]) -> None:
    """What follows drawn first visits, and what follows the same visits when they are given, is equally distributed."""
    model = small_model(method, spread=0.6)
    plain = sample(model, 12_000, 5)
    long = plain.subset(np.flatnonzero(plain.visits_per_patient > 1))
    first = long.first_visits
    history = long.with_visits(first, first + 1).subset(np.arange(min(2000, long.n_patients)))
    found = continue_records(model, history, visits=1, draws=3, seed=4).drawn.matrix().toarray() > 0
    drawn = long.matrix()[first + 1].toarray() > 0
    share = (found.mean(axis=0) + drawn.mean(axis=0)) / 2
    error = np.sqrt(share * (1 - share) * (1 / len(found) + 1 / len(drawn))) + 1e-3
    assert (np.abs(found.mean(axis=0) - drawn.mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_continuations_can_be_steered(method: str, small_model: Callable[..., Model], histories: Cohort) -> None:
    """A code that the target never has does not come; what is more frequent there comes more often."""
    generator = Generator(small_model(method).settings, small_model(method))
    plain = generator.continue_(histories, draws=300)
    goal = np.array([0.0, 0.9, *np.full(6, np.nan)])
    steered = generator.continue_(histories, draws=300, toward=Prevalence(generator.vocabulary_, goal, 1000))
    assert (steered.probabilities[:, 0] == 0).all() and steered.drawn.visit_counts[0] == 0
    assert (steered.probabilities[:, 1] > plain.probabilities[:, 1] + 0.1).all()


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt", "halo", "lstm", "synteg"])
def test_prefilling_is_stepping_through_the_same_visits(method: str, parts: Split) -> None:
    """With days and attributes: after two drawn visits, and after the same two visits given, the next one is equal."""
    settings = generator_for(method, width=16, layers=1).settings
    network = initial_model(settings, parts.train).network.eval()
    n, key, rule = 40, 17, DrawRule()
    rows = np.arange(n)
    attributes = parts.train.attributes
    categories = np.stack([np.asarray(attributes[name].values)[rows] + 1 for name in sorted(attributes)], axis=1)
    noise = [Noise(key, rows, 64 * number) for number in range(3)]
    state, visits = network.begin(torch.from_numpy(categories.astype(np.int64)), noise[0]), []
    for number in range(2):
        step = network.step(state, rule, noise[number], min_codes=1, certain=True)
        visits.append(Visits(step.rows, number, step.who, network.order.decode(step.codes), step.gap))
        state = step.state
    drawn = flat(visits, categories.astype(np.int64))
    assert drawn.gaps.max() > 0
    batch = pack(network.order.encode(drawn.codes), drawn.visit_sizes, drawn.lengths, drawn.attributes, drawn.gaps)
    given = network.prefill(batch, noise[0])
    one, two = (network.step(x, rule, noise[2], min_codes=1, certain=True) for x in (state, given))
    assert one.gap.tolist() == two.gap.tolist() and one.codes.tolist() == two.codes.tolist()
