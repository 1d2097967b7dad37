"""How strongly codes are raised: what pilots look for, and room in visits that hold about so many codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapcla.data.criteria import Criteria
from adapcla.generation import pilots
from adapcla.generation.conditional import sample_given
from adapcla.generation.model import Model
from adapcla.generation.pilots import weight_bound, with_shifts
from adapcla.generation.proposals import Proposer, Raised
from adapcla.generation.sampler import SampleRule
from adapcla.models.base import DrawRule


def proposer(model: Model, condition: Criteria) -> Proposer:
    clauses = condition.clauses(model.vocabulary)
    raised = Raised(condition, clauses, (0.0,) * len(clauses), DrawRule(), len(model.vocabulary))
    model.network.eval()
    return Proposer(model, condition, SampleRule(), raised)


def test_asked_codes_are_raised_and_codes_of_their_own_make_room() -> None:
    """Of five codes the second is asked for and the last two belong to a choice group."""
    alone = np.array([True, True, True, False, False])
    raised = Raised(Criteria.of("B"), (np.array([1]),), (4.0,), DrawRule(), 5, room=-0.5, alone=alone)
    bias = raised.bias(1)
    assert bias is not None and bias.tolist() == [-0.5, 4.0, -0.5, 0.0, 0.0]
    assert raised.bias(0) is None


def test_a_code_of_two_clauses_is_raised_by_the_larger_shift() -> None:
    clauses = (np.array([0, 1]), np.array([1]))
    raised = Raised(Criteria.of(["A|B", "B"]), clauses, (3.0, 2.0), DrawRule(torch.tensor([1.0, 0.0, 0.0])), 3)
    bias = raised.bias(0b11)
    assert bias is not None and bias.tolist() == [4.0, 3.0, 0.0]
    only = raised.bias(0b10)
    assert only is not None and only.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("room", [-0.5, 0.3])
def test_proposals_that_make_room_have_the_same_law(small_model: Callable[..., Model], room: float) -> None:
    """Weights of proposals that fulfil the condition sum to its probability, whatever the shifts."""
    model, condition = small_model("tailwise"), Criteria.of("C6")
    plain = proposer(model, condition)
    blocks = [plain.block(5, low) for low in range(0, 12 * 1024, 1024)]
    share = sum(len(part.weight) for part in blocks) / sum(part.n for part in blocks)
    steered = [plain.shifted((2.0,), room).block(5, low) for low in range(0, 6 * 1024, 1024)]
    weights = np.concatenate([part.weight for part in steered])
    n = sum(part.n for part in steered)
    error = np.sqrt(share * (1 - share) / (12 * 1024) + (weights**2).sum() / n**2)
    assert abs(weights.sum() / n - share) < 4 * error


def test_pilots_choose_what_promises_most(small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch) -> None:
    """With one way of making room that wastes everything, it is not chosen."""
    model, condition = small_model("adapcla"), Criteria.of("C6")
    monkeypatch.setattr(pilots, "_ROOM", (-30.0, 0.0))
    chosen = with_shifts(proposer(model, condition), 1, 0.003)
    assert chosen.proposer.described["room"] == 0.0 and chosen.n_visits > 0 and 0 < chosen.probability < 1


def test_the_bound_holds_all_but_a_share_of_the_weights() -> None:
    """Of weights 8, 1 and 1 a tenth of their sum may lie above: 8 less 1 is the bound."""
    assert weight_bound(np.array([1.0, 8.0, 1.0]), 0.1) == 7.0


def test_the_card_tells_the_room(small_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch) -> None:
    from adapcla.generation import conditional

    monkeypatch.setattr(conditional, "COMMON", 1.1)
    monkeypatch.setattr(conditional, "NO_GAIN", np.inf)
    effort = sample_given(small_model("tailwise"), 50, 7, Criteria.of(["C6", "C5"])).card["effort"]
    assert effort["room"] in pilots._ROOM and len(effort["shifts"]) == 2
