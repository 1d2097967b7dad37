"""The sparse loss is the dense one, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from adapcla.networks import bce


def _dense(states, weight, bias, visit_rows, target, positive_weight):  # type: ignore[no-untyped-def]
    logits = (states @ weight.t() + bias)[visit_rows]
    return F.binary_cross_entropy_with_logits(
        logits, target, reduction="sum", pos_weight=torch.full((weight.shape[0],), positive_weight)
    )


@given(
    seed=st.integers(0, 10_000),
    tile=st.sampled_from([(64, 2), (640, 3), (1 << 18, 2048)]),
    weight=st.sampled_from([1.0, 1.5]),
)
def test_value_and_gradients_agree_with_the_dense_loss(seed: int, tile: tuple[int, int], weight: float) -> None:
    """Tiles of 2 or 3 rows and 64 or 213 codes, or one of everything; some rows predict no visit, some several."""
    torch.manual_seed(seed)
    n_rows, n_codes, width, n_visits = 5, 150, 4, 9
    visit_rows = torch.randint(0, n_rows, (n_visits,))
    target = (torch.rand(n_visits, n_codes) < 0.3).float()
    visit, code = target.nonzero(as_tuple=True)
    parts = [torch.randn(n_rows, width), torch.randn(n_codes, width), torch.randn(n_codes)]
    sparse_parts = [p.clone().requires_grad_() for p in parts]
    dense_parts = [p.clone().requires_grad_() for p in parts]
    targets = bce.sparse_targets(visit_rows[visit], code, visit_rows, n_rows)
    before = bce.TILE_ELEMENTS, bce.TILE_ROWS
    bce.TILE_ELEMENTS, bce.TILE_ROWS = tile
    try:
        sparse = bce.sparse_bce(*sparse_parts, targets, weight)
    finally:
        bce.TILE_ELEMENTS, bce.TILE_ROWS = before
    dense = _dense(*dense_parts, visit_rows, target, weight)
    (2 * sparse).backward()
    (2 * dense).backward()
    assert float(sparse.detach()) == pytest.approx(float(dense.detach()), rel=1e-5)
    for mine, theirs in zip(sparse_parts, dense_parts, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_nll_of_each_visit_sums_to_the_loss() -> None:
    torch.manual_seed(1)
    states, weight, bias = torch.randn(3, 4), torch.randn(6, 4), torch.randn(6)
    visit_rows = torch.tensor([0, 0, 2, 1])
    visit_of_entry, codes = torch.tensor([0, 0, 1, 3]), torch.tensor([1, 5, 2, 0])
    targets = bce.sparse_targets(visit_rows[visit_of_entry], codes, visit_rows, 3)
    nll = bce.sparse_nll(states, weight, bias, visit_rows, visit_of_entry, codes)
    assert nll.shape == (4,)
    assert float(nll.sum()) == pytest.approx(float(bce.sparse_bce(states, weight, bias, targets)), rel=1e-5)


@pytest.mark.parametrize("largest", [-3.0, 3.99, 4.01, 60.0])
@pytest.mark.parametrize("n_codes", [1, 7, 8, 1003])
def test_sums_of_softplus_are_right_for_mild_and_for_extreme_logits(largest: float, n_codes: int) -> None:
    """On both sides of the border between logarithms of products and the plain way."""
    torch.manual_seed(3)
    logits = torch.randn(4, n_codes) * 3 - 8
    logits[0], logits[1, 0] = largest, largest
    logits.clamp_(max=largest)
    wanted, chance = F.softplus(logits.double()).sum(1), torch.sigmoid(logits)
    torch.testing.assert_close(bce.softplus_sums_(logits).double(), wanted, rtol=2e-6, atol=5e-6)
    torch.testing.assert_close(logits, chance)


def test_logits_that_are_not_finite_are_not_hidden() -> None:
    assert not torch.isfinite(bce.softplus_sums_(torch.tensor([[0.0, torch.nan]]))).all()
    assert not torch.isfinite(bce.softplus_sums_(torch.tensor([[0.0, torch.inf]]))).all()
