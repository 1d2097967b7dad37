"""Pairs inside visits, against two loops."""

from __future__ import annotations

import torch

from adapcla.models.visit_entries import Entries, joined, spread


def test_pairs_of_a_visit_are_all_and_no_others() -> None:
    torch.manual_seed(2)
    visit, codes = (torch.rand(9, 6) < 0.4).nonzero(as_tuple=True)
    one, other = Entries(visit, codes, torch.zeros(9, dtype=torch.int64)).pairs()
    by_hand = {(i, j) for i in range(len(codes)) for j in range(i + 1, len(codes)) if visit[i] == visit[j]}
    assert set(zip(one.tolist(), other.tolist(), strict=True)) == by_hand and len(one) == len(by_hand)


def test_lines_without_numbers_and_keys_that_nobody_asks_for() -> None:
    line, number = spread(torch.tensor([3, 3, 0]), torch.tensor([3, 5, 1]))
    assert line.tolist() == [1, 1, 2] and number.tolist() == [3, 4, 0]
    asked, key = joined(torch.tensor([7, 2, 2]), torch.tensor([1, 2, 5]))
    assert asked.tolist() == [1, 2] and key.tolist() == [1, 1]
