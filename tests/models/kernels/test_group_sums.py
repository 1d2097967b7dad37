"""Groups are told what their codes would be told one by one, however speakers join."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.kernels import group_sums
from adapcla.models.kernels.bce import Tile
from adapcla.models.kernels.group_sums import Grouped, GroupLines, GroupSums
from adapcla.models.kernels.members import members

TILE = Tile(slice(0, 2), slice(0, 6), (torch.zeros(0), torch.zeros(0)))


def sums_of(lines: GroupLines) -> GroupSums:
    """Two visits with speakers {0, 1} and {1}, of groups 0 and 1; codes of three groups."""
    torch.manual_seed(1)
    of_code = torch.tensor([0, 0, 1, 2, 2, 1])
    group = Grouped(torch.tensor([0, 1]), of_code, torch.randn(2, 3), lines)
    return GroupSums(group, slice(0, 2), (torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])), torch.tensor([2, 4]))


@pytest.mark.parametrize("few_runs", [0, 8])
def test_who_has_joined_is_heard_by_all(few_runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sums, "_FEW_RUNS", few_runs)
    told = sums_of(GroupLines.nothing())
    told.join(1, 1)
    sums = torch.zeros(2, 6)
    told.tell(sums, TILE)
    torch.testing.assert_close(sums, torch.stack([told.group.values[0][told.group.of_code], torch.zeros(6)]))


def test_lines_of_those_who_have_not_joined_reach_codes_of_later_blocks() -> None:
    told = sums_of(GroupLines(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([1, 2]), torch.ones(2)))
    found = told.lines_in(TILE, members(told.group.of_code, 3), 2)
    assert found is not None and isinstance(found.lines, torch.Tensor)
    assert found.lines.tolist() == [0, 0, 1] and [at.tolist() for at in found.at] == [[0, 0, 1], [2, 5, 4]]
    assert told.lines_in(TILE, members(told.group.of_code, 3), 0) is None


def test_a_speaker_takes_no_slope_of_tiles_before_it_joined() -> None:
    told, by_values, by_lines = sums_of(GroupLines.nothing()), torch.zeros(2, 3), torch.zeros(0)
    codes, nobody = members(told.group.of_code, 3), torch.zeros(6, 0)
    told.join(1, 1)
    told.take_back(torch.ones(6, 2), nobody, codes, slice(2, 2))
    told.join(3, 2)
    told.take_back(torch.ones(6, 2), nobody, codes, slice(2, 2))
    told.finish(by_values, by_lines)
    # The first speaker in one visit and two tiles, the second in two visits and one tile; two codes of each group.
    torch.testing.assert_close(by_values, torch.full((2, 3), 4.0))
