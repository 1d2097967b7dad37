"""The running number of codes: told to every block, and enough to end visits where they end."""

from __future__ import annotations

import numpy as np
import torch

from adapcla.data import Cohort
from adapcla.models.contract import DrawRule, Shape
from adapcla.models.counting import MOST_COUNTED, Counting, codes_before
from adapcla.models.draws import Noise
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.heads import BlockwiseHead

TOKENS = [f"C{i}" for i in range(48)]


def test_codes_before_are_those_of_earlier_blocks() -> None:
    torch.manual_seed(1)
    present = torch.rand(7, 5, 3) < 0.4  # visits, blocks, codes of a block
    visit, block, _ = present.nonzero(as_tuple=True)
    before = codes_before(visit, block, 7, 5)
    for k in range(5):
        assert torch.equal(before[:, k], present[:, :k].sum((1, 2)))


def test_large_numbers_are_taken_as_the_largest_and_shifts_begin_at_nothing() -> None:
    counting = Counting(n_blocks=3, hidden=2)
    assert not counting.shifts(torch.tensor([0, 5]), torch.tensor(1)).any()
    with torch.no_grad():
        counting.anywhere.normal_()
        counting.somewhere.normal_()
        counting.state.normal_()
    most, more = torch.tensor([MOST_COUNTED]), torch.tensor([MOST_COUNTED + 9])
    assert torch.equal(counting.shifts(most, torch.tensor(2)), counting.shifts(more, torch.tensor(2)))
    assert torch.equal(counting.states(most), counting.states(more))
    assert counting.shifts(torch.zeros(4, 3, dtype=torch.int64), torch.arange(3)).shape == (4, 3)


def test_nothing_follows_where_the_number_forbids_it() -> None:
    """From two codes on every logit is lowered beyond reach: blocks that begin with two codes stay empty."""
    cohort = Cohort.of([[TOKENS[:24]], [TOKENS[24:]]] * 3, TOKENS)
    torch.manual_seed(1)
    architecture = VisitArchitecture(width=8, layers=1, heads=2, head="blockwise", hidden=4, blocks=12, counting=True)
    network = visit_network(architecture, Shape(48, 4), cohort.prevalence()).eval()
    assert isinstance(network.head, BlockwiseHead) and network.head.counting is not None
    with torch.no_grad():
        network.head.counting.anywhere[2:] = -20.0
    noise = Noise(1, np.arange(200), 0)
    start = network.begin(torch.zeros(200, 0, dtype=torch.int64), noise)
    who, codes = network.draw_visit(start, DrawRule(), noise)
    block = network.head.block_of_code[network.rank_of_code[torch.from_numpy(codes)]]
    before = codes_before(torch.from_numpy(who), block, 200, len(network.head.sizes))
    assert len(who) > 300 and int(before[torch.from_numpy(who), block].max()) < 2
