"""The loss in blocks: the sharing of states and the tiles are ways of computing, not of meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapcla.networks.kernels import bce
from adapcla.networks.kernels.bce import SparseTargets
from adapcla.networks.kernels.blocks import BlockParts, block_bce, block_bce_plain, shared_first


def some_parts(n_visits: int, n_rows: int, sizes: list[int]) -> list[Tensor]:
    """Random parts of logits in blocks of these sizes."""
    n_codes = sum(sizes)
    shapes = [(n_rows, 4), (n_visits, len(sizes), 5), (n_codes, 4), (n_codes, 5), (n_codes,)]
    return [torch.randn(shape) for shape in shapes]


def both(
    sizes: list[int], targets: SparseTargets, positive_weight: float
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The loss by hand and the plain one, of the parts alone."""

    def of_parts(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *parts: loss(
            BlockParts(*parts),
            sizes,
            targets._replace(multiplicity=targets.multiplicity.to(parts[0].dtype)),
            positive_weight,
        )

    return of_parts(block_bce), of_parts(block_bce_plain)


@given(
    n_visits=st.integers(1, 9),
    extra_shared=st.integers(0, 8),
    sizes=st.sampled_from([[2, 3, 7], [12], [1] * 4, [100]]),
    density=st.sampled_from([0.0, 0.3]),
    positive_weight=st.sampled_from([1.0, 1.5]),
    tile=st.sampled_from([(1 << 18, 2048), (64, 2), (64, 3)]),
    seed=st.integers(0, 50),
)
def test_by_hand_and_plain_agree(
    agree: Callable[..., None],
    n_visits: int, extra_shared: int, sizes: list[int], density: float, positive_weight: float,
    tile: tuple[int, int], seed: int,
) -> None:  # fmt: skip
    """Tiles of two or three rows cut through visits that share a state, those of 64 codes through a block of 100."""
    torch.manual_seed(seed)
    visit, code = (torch.rand(n_visits, sum(sizes)) < density).nonzero(as_tuple=True)
    targets = SparseTargets(visit, code, torch.ones(n_visits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bce, "TILE_ELEMENTS", tile[0])
        patch.setattr(bce, "TILE_ROWS", tile[1])
        agree(*both(sizes, targets, positive_weight), some_parts(n_visits, max(1, n_visits - extra_shared), sizes))


def test_the_gradient_is_that_of_small_steps() -> None:
    """Four visits, of which two share a state and one is empty."""
    torch.manual_seed(1)
    targets = SparseTargets(torch.tensor([0, 1, 3]), torch.tensor([4, 0, 1]), torch.ones(4, dtype=torch.float64))
    parts = [part.double().requires_grad_() for part in some_parts(4, 3, [2, 3])]
    assert torch.autograd.gradcheck(both([2, 3], targets, 1.5)[0], parts)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_every_visit_keeps_its_row(rows: list[int]) -> None:
    order = shared_first(torch.tensor(rows))
    assert sorted(order.place.tolist()) == list(range(len(rows)))
    assert [int(order.rows[order.row_of_place[place]]) for place in order.place] == rows
    most = max(rows.count(row) for row in rows)
    assert len(order.rows) == len(rows) - most + 1
