"""The loss in blocks: the sharing of states and the tiles are ways of computing, not of meaning."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapcla.networks import bce
from adapcla.networks.bce import SparseTargets
from adapcla.networks.blocks import BlockParts, block_bce, shared_first

SIZES = [2, 3, 7]


def _dense(parts: BlockParts, present: Tensor, positive_weight: float) -> Tensor:
    """The definition: each visit's own row, each block's own product, a dense target."""
    history, inner, weight, lifted, bias = parts
    n_shared = len(inner) - len(history) + 1
    rows = torch.cat([history[:1].expand(n_shared, -1), history[1:]])
    lift = torch.cat(
        [inner[:, k] @ part.t() for k, part in enumerate(lifted.split(SIZES))],
        dim=1,
    )
    logits = rows @ weight.t() + bias + lift
    return F.binary_cross_entropy_with_logits(
        logits, present, reduction="sum", pos_weight=torch.full((len(bias),), positive_weight)
    )


@given(
    n_visits=st.integers(1, 9),
    extra_shared=st.integers(0, 8),
    positive_weight=st.sampled_from([1.0, 1.5]),
    tile=st.sampled_from([(1 << 18, 2048), (64, 2), (64, 3)]),
    seed=st.integers(0, 50),
)
def test_value_and_gradients_are_the_definitions(
    n_visits: int, extra_shared: int, positive_weight: float, tile: tuple[int, int], seed: int
) -> None:
    """Also with tiles of two or three rows, which cut through the visits that share a state."""
    generator = torch.Generator().manual_seed(seed)
    n_rows = max(1, n_visits - extra_shared)
    shapes = [(n_rows, 4), (n_visits, 3, 5), (12, 4), (12, 5), (12,)]
    given_ = [torch.randn(shape, generator=generator) for shape in shapes]
    present = (torch.rand(n_visits, 12, generator=generator) < 0.3).float()
    where = present.nonzero()
    targets = SparseTargets(where[:, 0], where[:, 1], torch.ones(n_visits))
    got, want = ([x.clone().requires_grad_() for x in given_] for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bce, "TILE_ELEMENTS", tile[0])
        patch.setattr(bce, "TILE_ROWS", tile[1])
        loss = block_bce(BlockParts(*got), SIZES, targets, positive_weight)
    loss.backward()
    dense = _dense(BlockParts(*want), present, positive_weight)
    dense.backward()
    assert float(loss.detach()) == pytest.approx(float(dense.detach()), rel=1e-5)
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_tiles_may_cut_through_a_block() -> None:
    """A block of 100 codes in tiles of 64: its second tile adds to what the first wrote."""
    torch.manual_seed(1)
    parts = [torch.randn(3, 4), torch.randn(5, 1, 2), torch.randn(100, 4), torch.randn(100, 2), torch.randn(100)]
    targets = SparseTargets(torch.tensor([0, 4]), torch.tensor([99, 1]), torch.ones(5))
    losses = []
    for wide in (64, 1 << 18):
        own = [x.clone().requires_grad_() for x in parts]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bce, "TILE_ELEMENTS", wide)
            loss = block_bce(BlockParts(*own), [100], targets)
        loss.backward()
        losses.append([loss.detach(), *(x.grad for x in own)])
    for cut, whole in zip(*losses, strict=True):
        torch.testing.assert_close(cut, whole, rtol=1e-4, atol=1e-5)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_every_visit_keeps_its_row(rows: list[int]) -> None:
    order = shared_first(torch.tensor(rows))
    assert sorted(order.place.tolist()) == list(range(len(rows)))
    assert [int(order.rows[order.row_of_place[place]]) for place in order.place] == rows
    most = max(rows.count(row) for row in rows)
    assert len(order.rows) == len(rows) - most + 1
