"""How visits are appointed: what pilots choose, what they say of the condition, and when there is nothing to choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError
from adapcla.generation import appointing
from adapcla.generation.appointing import MOST_CODES, Way, can_be_appointed, with_appointments
from adapcla.generation.model import Model
from adapcla.generation.proposals import Proposer, Raised
from adapcla.generation.sampler import SampleRule
from adapcla.models.base import DrawRule


def plain(model: Model, condition: Criteria) -> Proposer:
    clauses = condition.clauses(model.vocabulary)
    raised = Raised(condition, clauses, (0.0,) * len(clauses), DrawRule(), len(model.vocabulary))
    return Proposer(model, condition, SampleRule(), raised)


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt"])
def test_pilots_tell_the_probability_and_the_bound(small_model: Callable[..., Model], method: str) -> None:
    one = plain(small_model(method), Criteria.of("C6"))
    chosen = with_appointments(one, 1000, 1, 0.003)
    share = np.mean([len(one.block(5, low).weight) / 1024 for low in range(0, 8 * 1024, 1024)])
    assert abs(chosen.probability - share) < 0.25 * share
    part = chosen.proposer.block(3, 0)
    assert part.totals is not None and chosen.n_visits > 0
    assert 0.2 * part.totals.max() < chosen.bound < 5 * part.totals.max()


def test_ways_in_which_pilots_are_drawn_come_first() -> None:
    """The masses of branches are made from the first of all ways that are considered."""
    for drawn, considered in (
        (appointing._DRAWN, appointing._CONSIDERED),
        (appointing._DRAWN_ALONE, appointing._CONSIDERED_ALONE),
    ):
        assert considered[: len(drawn)] == drawn and len(set(considered)) == len(considered)


def test_a_way_that_wastes_everything_is_not_chosen(
    small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = (Way(12.0, -9.0, 0.0), Way(12.0))
    monkeypatch.setattr(appointing, "_DRAWN", ways)
    monkeypatch.setattr(appointing, "_CONSIDERED", ways)
    chosen = with_appointments(plain(small_model("tailwise"), Criteria.of("C6")), 100, 1, 0.003)
    assert chosen.proposer.described["room"] == 0.0


def test_one_clause_of_few_codes_can_be_appointed(
    small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model("adapcla")
    assert can_be_appointed(plain(model, Criteria.of("C6|C5"))) and MOST_CODES > 2
    assert not can_be_appointed(plain(model, Criteria.of(["C6", "C5"])))
    monkeypatch.setattr(appointing, "MOST_CODES", 1)
    assert not can_be_appointed(plain(model, Criteria.of("C6|C5")))


def test_a_condition_that_nobody_fulfils_is_said(
    small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appointing, "_ROUNDS", 1)
    condition = Criteria.of("C7", without="C0|C1|C2|C3|C4|C5|C6", visits="3", at="last")
    model = small_model("marginal")
    model.network.logits.fill_(3.0)  # type: ignore[union-attr, operator]
    with pytest.raises(AdapclaError, match="exclude each other"):
        with_appointments(plain(model, condition), 10, 1, 0.003)
