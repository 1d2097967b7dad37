"""Continuations that fulfil a condition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation import futures
from adapcla.generation.continuation import continued
from adapcla.generation.futures import as_known, continued_given
from adapcla.generation.model import Model


@pytest.fixture
def histories(small_model: Callable[..., Model]) -> Cohort:
    """One history of one visit, and one of two."""
    sex = Attribute(np.array([0, 1], dtype=np.int16), ("F", "M"))
    vocabulary = small_model("adapcla").vocabulary
    return Cohort.of([[["C0", "C1"]], [["C1"], ["C2"]]], vocabulary, attributes={"sex": sex})


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt"])
def test_continuations_follow_the_law_of_throwing_away(
    method: str, small_model: Callable[..., Model], histories: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(futures, "COMMON", 0.5)
    model, condition, draws = small_model(method), Criteria.of("C5", within=2), 150
    found = continued_given(model, histories, condition, draws, seed=3)
    assert found.drawn.n_patients == 2 * draws and condition.fulfilled(found.drawn).all()
    effort = found.drawn.card["effort"]
    assert effort["proposals"] >= effort["fulfilled"] >= effort["effective"] > 0
    assert found.history_of.tolist() == [0] * draws + [1] * draws
    plain = continued(model, histories, visits=2, draws=2500, seed=4)
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
    one, two = (continued_given(model, histories, condition, 10, seed=3).drawn for _ in range(2))
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
        continued_given(small_model("adapcla"), histories, Criteria.of("C5", where=[("sex", "F")]), 5, 1)
    with pytest.raises(UsageError, match="cannot go on from a history"):
        continued_given(small_model("eva", heads=None), histories, Criteria.of("C5"), 5, 1)
    monkeypatch.setattr(futures, "_MOST", 10)
    monkeypatch.setattr(futures, "_LEVELS", 0)
    with pytest.raises(AdapclaError, match="continuations in"):
        continued_given(small_model("adapcla"), histories, Criteria.of(["C5", "C6", "C7"]), 50, 1)
