"""What is spoken in a tile is the part of the whole that lies there."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.kernels import spoken as module
from adapcla.models.kernels.bce import Tile
from adapcla.models.kernels.group_sums import Grouped, GroupLines
from adapcla.models.kernels.spoken import Added, Band, Spoken, spoken_in

#: Six codes in blocks of two; codes 0, 2 and 3 speak.
SPEAKERS, HEARD_FROM = torch.tensor([0, 2, 3]), torch.tensor([2, 4, 4])


def some(groups: bool) -> Spoken:
    """Two visits, {0, 3} and {2}, with random numbers."""
    torch.manual_seed(1)
    lines = GroupLines(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 1]), torch.randn(2))
    by = (Grouped(SPEAKERS % 2, torch.arange(6) % 2, torch.randn(2, 2), lines),) if groups else ()
    corrections = Added(torch.tensor([1]), torch.tensor([5]), torch.randn(1))
    return Spoken(
        torch.tensor([0, 1, 0]), torch.tensor([2, 4, 5]), torch.randn(3), torch.ones(2, 3), corrections,
        torch.tensor([0, 0, 1]), torch.tensor([0, 2, 1]), HEARD_FROM, by,
    )  # fmt: skip


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("together", [1, 64])
def test_tiles_hold_their_part_of_the_whole(groups: bool, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JOIN_TOGETHER", together)
    spoken = some(groups)
    whole = spoken.sums(2, 6)
    nothing = (torch.zeros(0), torch.zeros(0))
    for rows in (slice(0, 2), slice(1, 2)):
        for codes in (slice(0, 3), slice(3, 6), slice(0, 6)):
            tile = Tile(rows, codes, nothing)
            torch.testing.assert_close(spoken_in(spoken, Band(spoken, rows), tile).sums, whole[rows, codes])


def test_nobody_is_heard_in_the_own_block_or_before() -> None:
    table = some(groups=True).table(6)
    for speaker, heard_from in enumerate(HEARD_FROM.tolist()):
        assert not table[speaker, :heard_from].any() and table[speaker, heard_from:].all()
