"""Codes by rank: most frequent first, small counts tied."""

from __future__ import annotations

import torch

from adapcla.data import Cohort
from adapcla.models.code_order import frequency_order


def test_codes_of_up_to_ten_visits_are_tied_and_ties_go_by_code_string() -> None:
    visits = [["A", "D"]] + [["B", "C"]] * 2 + [["C", "D"]] * 11
    code_of_rank, log_odds = frequency_order(Cohort.of([visits]).prevalence())
    assert code_of_rank.tolist() == [2, 3, 0, 1]
    torch.testing.assert_close(torch.sigmoid(log_odds), torch.tensor([13, 12, 1, 2]) / 14, atol=1e-4, rtol=0)
