"""One process alone; what several do together is in tests/behaviour/test_processes.py."""

from __future__ import annotations

import torch
from torch import nn

from adapcla.training.distributed import Processes, processes


def test_a_process_alone_is_the_first_and_sums_nothing() -> None:
    alone = processes()
    assert alone == Processes(0, 1) and alone.main
    alone.wait()
    parameter = nn.Parameter(torch.ones(2))
    alone.sum_gradients([parameter])
    assert parameter.grad is None
    assert alone.summed([1.5, float("inf")]) == [1.5, float("inf")]


def test_shares_are_the_whole_without_repeats() -> None:
    """Seven shards for three processes: 0 3 6, 1 4, 2 5."""
    shares = [list(Processes(index, 3).share(range(7))) for index in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_process_alone_says_what_it_thinks_and_keeps_its_bytes() -> None:
    alone = Processes(0, 1)
    assert (alone.first_says(True), alone.first_says(False)) == (True, False)
    assert alone.bytes_of_first(b"abc") == b"abc" and alone.bytes_of_first(None) is None
