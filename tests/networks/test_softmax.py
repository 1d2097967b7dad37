"""Cross-entropy over tokens of which some are impossible."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from adapcla.networks import softmax
from adapcla.networks.softmax import Choices, masked_cross_entropy, masked_nll


def question():
    """Three rows over four codes, a separator and an end; row 1 may only take code 3, row 2 has code 1 gone."""
    choices = Choices(
        torch.tensor([0, 3, 0]),
        torch.tensor([True, False, True]),
        torch.tensor([False, False, True]),
        torch.tensor([2]),
        torch.tensor([1]),
    )
    allowed = torch.tensor([[1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1]]).bool()
    return choices, allowed, torch.tensor([4, 3, 5])


def test_impossible_tokens_are_out_of_the_sum(monkeypatch):
    """Against plain cross-entropy over the allowed columns, value and gradients, in one chunk and in many."""
    choices, allowed, targets = question()
    torch.manual_seed(1)
    parts = [torch.randn(3, 5), torch.randn(6, 5), torch.randn(6)]
    plain = [part.clone().requires_grad_() for part in parts]
    logits = (plain[0] @ plain[1].t() + plain[2]).masked_fill(~allowed, -torch.inf)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    expected.backward()
    for size in (1 << 24, 6):
        monkeypatch.setattr(softmax, "CHUNK_ELEMENTS", size)
        mine = [part.clone().requires_grad_() for part in parts]
        loss = masked_cross_entropy(*mine, choices, targets)
        loss.backward()
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        for one, two in zip(mine, plain, strict=True):
            assert torch.allclose(one.grad, two.grad, atol=1e-5)


def test_the_only_choice_costs_nothing_and_the_end_is_told_where_it_can_come():
    choices, _, targets = question()
    nll, end = masked_nll(torch.zeros(3, 2), torch.zeros(6, 2), torch.zeros(6), choices, targets)
    assert nll.tolist() == pytest.approx([torch.tensor(5.0).log().item(), 0.0, torch.tensor(5.0).log().item()])
    assert end[0] == end[1] == -torch.inf
    assert float(end[2].exp()) == pytest.approx(0.2)
