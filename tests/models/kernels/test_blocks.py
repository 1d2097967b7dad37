"""The loss in blocks: the sharing of states and the tiles are ways of computing, not of meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapcla.models.groups import Groups
from adapcla.models.kernels import bce
from adapcla.models.kernels import spoken as module
from adapcla.models.kernels.bce import SparseTargets
from adapcla.models.kernels.blocks import BlockParts, Shared, block_bce, block_bce_plain, block_nll, shared_first
from adapcla.models.kernels.group_sums import Grouped, GroupLines
from adapcla.models.kernels.spoken import Added, Spoken


def rows_shared(n_visits: int, n_rows: int) -> Tensor:
    """(visits,) rows of the history, ascending; every row has a visit, the first ones have several."""
    return torch.sort(torch.cat([torch.arange(n_rows), torch.randint((n_rows + 1) // 2, (n_visits - n_rows,))])).values


def some_parts(n_visits: int, n_rows: int, sizes: list[int]) -> list[Tensor]:
    """Random parts of logits in blocks of these sizes."""
    n_codes = sum(sizes)
    shapes = [(n_rows, 4), (n_visits, len(sizes), 5), (n_codes, 4), (n_codes, 5), (n_codes,)]
    return [torch.randn(shape) for shape in shapes]


def both(
    row_of_visit: Tensor, sizes: list[int], targets: SparseTargets, positive_weight: float
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The loss by hand and the plain one, of the parts alone."""

    def of_parts(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *parts: loss(
            BlockParts(*parts),
            row_of_visit,
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
        n_rows = max(1, n_visits - extra_shared)
        rows = rows_shared(n_visits, n_rows)
        agree(*both(rows, sizes, targets, positive_weight), some_parts(n_visits, n_rows, sizes))


def test_the_gradient_is_that_of_small_steps() -> None:
    """Four visits, of which two share a state and one is empty."""
    torch.manual_seed(1)
    targets = SparseTargets(torch.tensor([0, 1, 3]), torch.tensor([4, 0, 1]), torch.ones(4, dtype=torch.float64))
    parts = [part.double().requires_grad_() for part in some_parts(4, 3, [2, 3])]
    assert torch.autograd.gradcheck(both(torch.tensor([0, 0, 1, 2]), [2, 3], targets, 1.5)[0], parts)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_every_visit_keeps_its_row(rows: list[int]) -> None:
    order = shared_first(torch.tensor(rows))
    assert sorted(order.place.tolist()) == list(range(len(rows)))
    assert [int(order.rows[order.row_of_place[place]]) for place in order.place] == rows
    assert sorted(order.rows.tolist()) == sorted(set(rows)), "every row is written once"
    n_several = sum(rows.count(row) > 1 for row in rows)
    assert Shared.of(order.row_of_place).n_visits == n_several, "and visits that share one come first"


def company(
    visit: Tensor, code: Tensor, sizes: list[int], n_visits: int
) -> tuple[list[Tensor], Callable[..., tuple[Added, Spoken]]]:
    """Random numbers, and what they make: lines that are added, pairs and groups that speak to later blocks."""
    n_codes = sum(sizes)
    block = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    speakers, speaker_of_entry = torch.unique(code, return_inverse=True)
    leads = (block[speakers][:, None] < block[None]) & (torch.rand(len(speakers), n_codes) < 0.4)
    second, first = leads.t().nonzero(as_tuple=True)
    lines = [torch.stack([torch.randint(n_visits, (7,)), torch.randint(n_codes, (7,))]) for _ in range(2)]
    numbers = [torch.randn(7), torch.randn(len(first)), torch.rand(n_visits, len(sizes)), torch.randn(7)]
    group_of_code = [torch.randint(n, (n_codes,)) for n in (2, 5)]
    chosen = [torch.randint(max(len(code), 1), (6 * bool(len(code)),)) for _ in range(2)]
    told = [torch.randint(n, (len(chosen[0]),)) for n in (2, 5)]
    numbers += [x for n in (2, 5) for x in (torch.randn(n, n), torch.randn(len(chosen[0])))]
    heard_from = torch.searchsorted(block, block[speakers], right=True)

    def of(added: Tensor, values: Tensor, strength: Tensor, corrections: Tensor, *by: Tensor) -> tuple[Added, Spoken]:
        wrong = Added(*lines[1], corrections).by_code()
        parts = zip(group_of_code, by[::2], by[1::2], chosen, told, strict=True)
        groups = tuple(
            Grouped(g[speakers], g, said, GroupLines(visit[who], speaker_of_entry[who], whom, more).by_speaker())
            for g, said, more, who, whom in parts
        )
        return Added(*lines[0], added), Spoken(
            first, second, values, strength, wrong, visit, speaker_of_entry, heard_from, groups
        )

    return numbers, of


@given(
    n_visits=st.integers(1, 9),
    sizes=st.sampled_from([[2, 3, 7], [1] * 4, [30, 70]]),
    density=st.sampled_from([0.0, 0.3]),
    tile=st.sampled_from([(1 << 18, 2048), (64, 2)]),
    seed=st.integers(0, 30),
    choosing=st.booleans(),
    together=st.sampled_from([1, 3, 64]),
)
def test_what_is_added_and_what_is_spoken_agree_too(
    agree: Callable[..., None], some_groups: Callable[[int], Groups | None],
    n_visits: int, sizes: list[int], density: float, tile: tuple[int, int], seed: int, choosing: bool,
    together: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    visit, code = (torch.rand(n_visits, sum(sizes)) < density).nonzero(as_tuple=True)
    numbers, of = company(visit, code, sizes, n_visits)
    groups, rows = some_groups(sum(sizes)) if choosing else None, rows_shared(n_visits, (n_visits + 1) // 2)

    def of_parts(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def value(*tensors: Tensor) -> Tensor:
            targets = SparseTargets(visit, code, torch.ones(n_visits, dtype=tensors[0].dtype), groups)
            return loss(BlockParts(*tensors[:5]), rows, sizes, targets, 1.5, *of(*tensors[5:]))

        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bce, "TILE_ELEMENTS", tile[0])
        patch.setattr(bce, "TILE_ROWS", tile[1])
        patch.setattr(module, "_JOIN_TOGETHER", together)
        tensors = [*some_parts(n_visits, (n_visits + 1) // 2, sizes), *numbers]
        agree(of_parts(block_bce), of_parts(block_bce_plain), tensors)
        targets = SparseTargets(visit, code, torch.ones(n_visits), groups)
        whole = block_bce_plain(BlockParts(*tensors[:5]), rows, sizes, targets, 1.0, *of(*numbers))
        each = block_nll(BlockParts(*tensors[:5]), rows, sizes, targets, *of(*numbers))
        torch.testing.assert_close(each.sum().float(), whole, rtol=1e-4, atol=1e-4)
