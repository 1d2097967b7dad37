"""Heads: what they learn from is what they draw from."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from adapcla.models.base import DrawRule
from adapcla.models.draws import Noise
from adapcla.models.independent_head import IndependentHead, sparse_nll
from adapcla.models.layers import CodeTable
from adapcla.models.losses import sparse_bce, sparse_targets


class Visits(NamedTuple):
    row_before: Tensor
    visit_of_entry: Tensor
    codes: Tensor

    @property
    def patient_of_visit(self) -> Tensor:
        return torch.arange(len(self.row_before))


def _head(n_codes: int = 4) -> IndependentHead:
    torch.manual_seed(2)
    table = CodeTable(n_codes, 6)
    with torch.no_grad():
        table.own.mul_(35.0)
    return IndependentHead(table, torch.randn(n_codes) * 0.5 - 0.5)


def _every_visit(n_codes: int) -> Visits:
    """All subsets of the codes as visits predicted by row 0."""
    subsets = [s for r in range(n_codes + 1) for s in itertools.combinations(range(n_codes), r)]
    visit = [i for i, s in enumerate(subsets) for _ in s]
    codes = [c for s in subsets for c in s]
    return Visits(torch.zeros(len(subsets), dtype=torch.int64), torch.tensor(visit), torch.tensor(codes))


def test_probabilities_of_all_visits_sum_to_one() -> None:
    head, visits = _head(), _every_visit(4)
    nll = head.nll(torch.randn(1, 6), visits, None)
    assert float(torch.exp(-nll).sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("biased", [False, True])
def test_the_loss_is_the_summed_nll(biased: bool) -> None:
    head, visits = _head(), _every_visit(4)
    bias = torch.tensor([0.5, -1.0, 2.0, 0.0]) if biased else None
    states = torch.randn(1, 6)
    loss = float(head.loss(states, visits, bias).detach())
    assert loss == pytest.approx(float(head.nll(states, visits, bias).sum()), rel=1e-5)


def test_drawn_visits_come_at_their_likelihood() -> None:
    """χ² of 16 possible visits over 20,000 draws against exp(−nll)."""
    head, visits = _head(), _every_visit(4)
    states, n = torch.randn(1, 6), 20_000
    expected = n * torch.exp(-head.nll(states, visits, None)).numpy()
    who, codes = head.draw(states, torch.zeros(n, dtype=torch.int64), DrawRule(), Noise(5, np.arange(n), 0)).drawn
    mask = np.zeros(n, dtype=int)
    np.add.at(mask, who, 1 << codes)
    keys = [sum(1 << c for c in s) for r in range(5) for s in itertools.combinations(range(4), r)]
    found = np.bincount(mask, minlength=16)[keys]
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4


def test_matching_the_number_of_codes_needs_all_logits_at_once() -> None:
    rule = DrawRule(counts=np.array([2, 2, 2]))
    n = 4_000
    rows, noise = torch.zeros(n, dtype=torch.int64), Noise(5, np.arange(n), 0)
    head = _head(n_codes=30)
    who, _ = head.draw(torch.randn(1, 6), rows, rule, noise).drawn
    assert len(who) / n == pytest.approx(2.0, abs=0.1)


def test_nll_of_each_visit_sums_to_the_loss() -> None:
    torch.manual_seed(1)
    states, weight, bias = torch.randn(3, 4), torch.randn(6, 4), torch.randn(6)
    visit_rows = torch.tensor([0, 0, 2, 1])
    visit_of_entry, codes = torch.tensor([0, 0, 1, 3]), torch.tensor([1, 5, 2, 0])
    targets = sparse_targets(visit_rows[visit_of_entry], codes, visit_rows, 3)
    nll = sparse_nll(states, weight, bias, visit_rows, visit_of_entry, codes)
    assert nll.shape == (4,)
    assert float(nll.sum()) == pytest.approx(float(sparse_bce(states, weight, bias, targets)), rel=1e-5)
