"""Pushes of choices: what they change is the difference of two plain losses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adapcla.models.group_pushes import group_pushes
from adapcla.models.groups import Groups, Run
from adapcla.models.kernels.bce import SparseTargets, bce_of_logits
from adapcla.models.recall import Pushes

#: Two groups of two, two codes of their own, a group of three.
GROUPS = Groups((Run(0, 2, 2, 0), Run(6, 1, 3, 2)), 9)


@given(seed=st.integers(0, 200), positive_weight=st.sampled_from([1.0, 1.5]))
def test_the_change_is_the_difference_of_the_losses(seed: int, positive_weight: float) -> None:
    torch.manual_seed(seed)
    logits = torch.randn(4, 9, dtype=torch.float64)
    choice = torch.randint(-1, 2, (4, 2)), torch.randint(-1, 3, (4, 1))
    there = torch.zeros(4, 9, dtype=torch.bool)
    for visit in range(4):
        for group, picked in enumerate(choice[0][visit].tolist()):
            there[visit, 2 * group : 2 * group + 2] = torch.arange(2) == picked
        there[visit, 6:] = torch.arange(3) == int(choice[1][visit])
    there[:, 4:6] = torch.rand(4, 2) < 0.5
    visit, code = there.nonzero(as_tuple=True)
    rows, codes = (torch.rand(4, 9) < 0.4).nonzero(as_tuple=True)
    push = Pushes(rows, codes, torch.randn(len(rows)).double(), there[rows, codes].double())
    members, of_codes = group_pushes(GROUPS, push, visit, code)
    change = members.change(logits[members.lines.rows, members.lines.codes], 4, positive_weight)
    change = change.index_add(0, of_codes.rows, of_codes.change(logits[of_codes.rows, of_codes.codes], positive_weight))
    for number in range(4):
        mine = visit == number
        targets = SparseTargets(
            torch.zeros(int(mine.sum()), dtype=torch.int64), code[mine], torch.ones(1).double(), GROUPS
        )
        before, after = (
            bce_of_logits(z[number : number + 1], targets, positive_weight) for z in (logits, push.added_to(logits))
        )
        assert float(after - before) == pytest.approx(float(change[number]), abs=1e-9)


def test_no_push_changes_nothing() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    members, of_codes = group_pushes(GROUPS, Pushes(none, none, torch.zeros(0), torch.zeros(0)), none, none)
    assert members.change(torch.zeros(0), 3).tolist() == [0.0, 0.0, 0.0]
    assert len(of_codes.rows) == 0
