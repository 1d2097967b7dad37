"""Heads: what they learn from is what they draw from."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from adapcla.errors import UsageError
from adapcla.models.block_order import block_sizes
from adapcla.models.contract import DrawRule
from adapcla.models.draws import Noise
from adapcla.models.heads import BlockwiseHead, IndependentHead, sparse_nll
from adapcla.models.kernels.bce import sparse_bce, sparse_targets
from adapcla.models.layers import CodeTable


class Visits(NamedTuple):
    row_before: Tensor
    visit_of_entry: Tensor
    codes: Tensor

    @property
    def patient_of_visit(self) -> Tensor:
        return torch.arange(len(self.row_before))


def _head(kind: str, n_codes: int = 4, n_blocks: int = 4) -> IndependentHead | BlockwiseHead:
    torch.manual_seed(2)
    table = CodeTable(n_codes, 6, scale=0.7)
    initial = torch.randn(n_codes) * 0.5 - 0.5
    if kind == "independent":
        return IndependentHead(table, initial)
    # Four codes are one per block, the finest factorisation.
    sizes = [1, 1, 1, 1] if n_codes == 4 else block_sizes(n_codes, n_blocks)
    head = BlockwiseHead(table, CodeTable(n_codes, 5, scale=1.0), initial, 6, 5, sizes)
    with torch.no_grad():
        head.to_state.normal_()
    return head


def _every_visit(n_codes: int) -> Visits:
    """All subsets of the codes as visits predicted by row 0."""
    subsets = [s for r in range(n_codes + 1) for s in itertools.combinations(range(n_codes), r)]
    visit = [i for i, s in enumerate(subsets) for _ in s]
    codes = [c for s in subsets for c in s]
    return Visits(torch.zeros(len(subsets), dtype=torch.int64), torch.tensor(visit), torch.tensor(codes))


@pytest.mark.parametrize("kind", ["independent", "blockwise"])
def test_probabilities_of_all_visits_sum_to_one(kind: str) -> None:
    head, visits = _head(kind), _every_visit(4)
    nll = head.nll(torch.randn(1, 6), visits, None)
    assert float(torch.exp(-nll).sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["independent", "blockwise"])
@pytest.mark.parametrize("biased", [False, True])
def test_the_loss_is_the_summed_nll(kind: str, biased: bool) -> None:
    head, visits = _head(kind), _every_visit(4)
    bias = torch.tensor([0.5, -1.0, 2.0, 0.0]) if biased else None
    states = torch.randn(1, 6)
    loss = float(head.loss(states, visits, bias).detach())
    assert loss == pytest.approx(float(head.nll(states, visits, bias).sum()), rel=1e-5)


@pytest.mark.parametrize("kind", ["independent", "blockwise"])
def test_drawn_visits_come_at_their_likelihood(kind: str) -> None:
    """χ² of 16 possible visits over 20,000 draws against exp(−nll)."""
    head, visits = _head(kind), _every_visit(4)
    states, n = torch.randn(1, 6), 20_000
    expected = n * torch.exp(-head.nll(states, visits, None)).numpy()
    who, codes = head.draw(states, torch.zeros(n, dtype=torch.int64), DrawRule(), Noise(5, np.arange(n), 0))
    mask = np.zeros(n, dtype=int)
    np.add.at(mask, who, 1 << codes)
    keys = [sum(1 << c for c in s) for r in range(5) for s in itertools.combinations(range(4), r)]
    found = np.bincount(mask, minlength=16)[keys]
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4


def test_the_blockwise_loss_agrees_with_a_plain_restatement() -> None:
    """Block by block in Python: state = H + C·gelu(A·H + Σ Q[earlier] + e), logits = W·state + bias."""
    head = _head("blockwise", n_codes=40, n_blocks=3)
    assert isinstance(head, BlockwiseHead)
    states = torch.randn(2, 6)
    visit = [3, 17, 30, 39]
    visits = Visits(torch.tensor([1]), torch.zeros(4, dtype=torch.int64), torch.tensor(visit))
    total, begin = 0.0, 0
    for k, size in enumerate(head.sizes):
        earlier = [c for c in visit if c < begin]
        inner = F.gelu(head.from_history(states[1]) + head.within()[earlier].sum(0) + head.block[k])
        state = states[1] + head.to_state @ inner
        logits = (head.table() @ state + head.bias)[begin : begin + size]
        target = torch.tensor([float(c in visit) for c in range(begin, begin + size)])
        total += float(F.binary_cross_entropy_with_logits(logits, target, reduction="sum"))
        begin += size
    assert float(head.loss(states, visits, None).detach()) == pytest.approx(total, rel=1e-4)


def test_matching_the_number_of_codes_needs_all_logits_at_once() -> None:
    rule = DrawRule(counts=np.array([2, 2, 2]))
    n = 4_000
    rows, noise = torch.zeros(n, dtype=torch.int64), Noise(5, np.arange(n), 0)
    head = _head("independent", n_codes=30)
    who, _ = head.draw(torch.randn(1, 6), rows, rule, noise)
    assert len(who) / n == pytest.approx(2.0, abs=0.1)
    with pytest.raises(UsageError, match="blockwise"):
        _head("blockwise").draw(torch.randn(1, 6), rows, rule, noise)


@given(n_codes=st.integers(1, 20_000), n_blocks=st.integers(1, 40))
def test_blocks_cover_the_codes_and_grow(n_codes: int, n_blocks: int) -> None:
    sizes = block_sizes(n_codes, n_blocks)
    assert sum(sizes) == n_codes
    assert len(sizes) <= n_blocks
    assert min(sizes) >= 1
    assert all(later >= earlier - 1 for earlier, later in itertools.pairwise(sizes[:-1]))


def test_nll_of_each_visit_sums_to_the_loss() -> None:
    torch.manual_seed(1)
    states, weight, bias = torch.randn(3, 4), torch.randn(6, 4), torch.randn(6)
    visit_rows = torch.tensor([0, 0, 2, 1])
    visit_of_entry, codes = torch.tensor([0, 0, 1, 3]), torch.tensor([1, 5, 2, 0])
    targets = sparse_targets(visit_rows[visit_of_entry], codes, visit_rows, 3)
    nll = sparse_nll(states, weight, bias, visit_rows, visit_of_entry, codes)
    assert nll.shape == (4,)
    assert float(nll.sum()) == pytest.approx(float(sparse_bce(states, weight, bias, targets)), rel=1e-5)
