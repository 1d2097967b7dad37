"""Numbers and rows that are taken many times get the gradients of all their places."""

from __future__ import annotations

import torch

from adapcla.models.kernels.taken import repeated, taken


def test_numbers_get_the_gradients_of_all_their_places() -> None:
    numbers, index = torch.randn(5, requires_grad=True), torch.tensor([4, 0, 0, 2, 4, 4])
    weights = torch.randn(6)
    (taken(numbers, index) * weights).sum().backward()
    by_hand = torch.zeros(5).index_add(0, index, weights)
    assert numbers.grad is not None
    torch.testing.assert_close(numbers.grad, by_hand)


def test_rows_get_the_gradients_of_all_their_places() -> None:
    """The second row is taken nowhere."""
    rows, index = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 0, 2, 3, 3, 3])
    weights = torch.randn(6, 3)
    (repeated(rows, index) * weights).sum().backward()
    assert rows.grad is not None
    torch.testing.assert_close(rows.grad, torch.zeros(4, 3).index_add(0, index, weights))
