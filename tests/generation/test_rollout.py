"""Rolling out, on a network whose every move is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from adapcla.data.attributes import AttributeDistribution
from adapcla.errors import AdapclaError
from adapcla.generation.sampler import BLOCK, blocks, joined, roll
from adapcla.models.base import Drawn, DrawRule
from adapcla.models.draws import Noise

_NOBODY = AttributeDistribution((), (), np.zeros((1, 0), dtype=np.int64), np.array([1]))


class _Counting:
    """Patient number p has p + 1 visits; its visit t holds code t, and its third visit is empty."""

    last_code: int | None = None

    def begin(self, attributes: torch.Tensor, noise: Noise) -> tuple[NDArray[np.int64], int]:
        return noise.patients, 0

    def goes_on(self, state: Any, noise: Noise) -> NDArray[np.bool_]:
        return state[0] >= state[1]

    def draw_gap(self, state: Any, noise: Noise) -> NDArray[np.int64]:
        return np.full(len(state[0]), 10 * state[1])

    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Drawn:
        n = len(state[0])
        if state[1] == 2:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.arange(n), np.full(n, state[1])

    def enter(self, state: Any, gap: NDArray[np.int64]) -> Any:
        return state

    def visit(self, state: Any, rule: DrawRule, noise: Noise) -> tuple[Drawn, None]:
        return self.draw_visit(state, rule, noise), None

    def absorb(self, state: Any, drawn: Drawn, gap: NDArray[np.int64]) -> Any:
        return state[0], state[1] + 1

    def keep(self, state: Any, rows: NDArray[np.int64]) -> Any:
        return state[0][rows], state[1]


def test_records_end_when_the_network_says_so_or_at_an_empty_visit() -> None:
    """Patients 0, 1, 2 … have 1, 2, 2, 2 … visits, because the third is empty."""
    network = _Counting()
    patients = np.arange(4)
    state = network.begin(torch.zeros(4, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((4, 0), dtype=np.int64), DrawRule(), 1, range(9))  # type: ignore[arg-type]
    assert out.lengths.tolist() == [1, 2, 2, 2]
    assert out.codes.tolist() == [0, 0, 1, 0, 1, 0, 1]
    assert out.gaps.tolist() == [0, 0, 10, 0, 10, 0, 10]


class _Dying(_Counting):
    """Nobody lives on after code 0."""

    last_code = 0


def test_death_ends_a_record_whatever_the_network_would_say() -> None:
    network, patients = _Dying(), np.arange(4)
    state = network.begin(torch.zeros(4, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((4, 0), dtype=np.int64), DrawRule(), 1, range(9))  # type: ignore[arg-type]
    assert out.lengths.tolist() == [1, 1, 1, 1]


def test_a_visit_that_never_fills_is_an_error_with_a_remedy() -> None:
    network = _Counting()
    state = (np.array([5]), 2)
    with pytest.raises(AdapclaError, match="to do"):
        roll(network, state, np.array([5]), np.zeros((1, 0), dtype=np.int64), DrawRule(), 1, range(2, 4), min_codes=1)  # type: ignore[arg-type]


class _Reluctant(_Counting):
    """A network whose visits are empty 97 times in 100."""

    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Drawn:
        who = np.flatnonzero(noise.uniform(1, 8)[:, 0] < 0.03)
        return who, np.zeros(len(who), dtype=np.int64)


def test_a_first_visit_that_is_nearly_always_empty_is_drawn_until_it_is_not() -> None:
    """Of 300 patients 0.97^60 = 16 % would get no visit in sixty draws; in 1,200 none would, but for one in 10^13."""
    network, patients = _Reluctant(), np.arange(300)
    state = network.begin(torch.zeros(300, 0), Noise(1, patients, 0))
    out = roll(network, state, patients, np.zeros((300, 0), dtype=np.int64), DrawRule(), 1, range(1))  # type: ignore[arg-type]
    assert (out.lengths == 1).all()


def test_blocks_are_cut_at_the_number_asked_for() -> None:
    parts = list(blocks(_Counting(), _NOBODY, DrawRule(), 1, BLOCK + 3, 9, 0))  # type: ignore[arg-type]
    assert [len(part.lengths) for part in parts] == [BLOCK, 3]
    whole = joined(parts)
    assert whole.lengths.sum() == len(whole.visit_sizes)
