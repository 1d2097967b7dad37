"""Looking several blocks ahead: the same patients as block after block, and the law that the likelihood tells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.generation import Generator, generator_for
from adapcla.io import simulator as planted
from adapcla.models import block_draws
from adapcla.models.block_draws import VisitsSoFar, Window, draw_ahead, windows
from adapcla.models.contract import DrawRule
from adapcla.models.draws import Noise


@pytest.fixture(scope="module")
def fitted() -> Generator:
    """A network with all parts that a drawn code changes."""
    train, valid, _ = planted.simulate(patients=400, codes=200, seed=1).split(seed=4)
    settings = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 64, "calibration_rounds": 0}
    return generator_for("tailwise", **settings).fit(train, valid)


def _lists(cohort: Cohort) -> list[list[int]]:
    return [np.asarray(part).tolist() for part in (cohort.codes, cohort.visit_starts, cohort.patient_starts)]


@pytest.mark.parametrize(("ahead", "codes_ahead"), [(1, 1), (7, 1000), (40, 10)])
def test_how_far_one_looks_ahead_changes_nobody(
    fitted: Generator, ahead: int, codes_ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random numbers belong to patients and blocks, so that the same codes come out however blocks are grouped."""
    plain = fitted.sample(300, seed=5)
    monkeypatch.setattr(block_draws, "_AHEAD", ahead)
    monkeypatch.setattr(block_draws, "_CODES_AHEAD", codes_ahead)
    assert _lists(fitted.sample(300, seed=5)) == _lists(plain)


def test_windows_hold_all_blocks_once_and_none_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of many blocks alone look ahead: the same sizes one by one where they are few."""
    sizes, alone = [3, 2, 1, 1, 900, 200, 2000, 5], [False, True, True, True, True, True, True, False]
    assert [window.n_blocks for window in windows(sizes, alone)] == [1] * 8
    monkeypatch.setattr(block_draws, "_ONE_BY_ONE", 7)
    found = list(windows(sizes, alone))
    assert [window.codes for window in found] == [
        slice(0, 3),
        slice(3, 907),
        slice(907, 1107),
        slice(1107, 3107),
        slice(3107, 3112),
    ]
    assert [window.n_blocks for window in found] == [1, 4, 1, 1, 1]


def test_each_block_has_its_own_state() -> None:
    """Blocks of one and two codes with states 2 and 3: products with the codes' numbers 5, 7 and 11."""
    window = Window.of([1, 2], 0, 0)
    inner = torch.tensor([[[2.0]], [[3.0]]])  # (blocks, rows, hidden)
    assert window.products(inner, torch.tensor([[5.0], [7.0], [11.0]])).tolist() == [[10.0, 21.0, 33.0]]


def test_codes_follow_the_law_in_which_later_blocks_know_earlier_ones() -> None:
    """Three blocks: the first code makes the second likelier and the third rarer, and so does the second the third.

    Probabilities of all eight visits by hand, against 200,000 draws: χ² with seven degrees of freedom.
    """
    n, bias = 200_000, torch.tensor([0.3, -0.5, 0.2])
    within, lifted, block = torch.tensor([[1.5], [0.7], [0.0]]), torch.tensor([[0.0], [1.2], [-0.9]]), torch.zeros(3, 1)
    visits = VisitsSoFar(bias.repeat(n, 1), torch.zeros(n, 1), block, within, lifted, DrawRule())
    who, codes = draw_ahead(visits, Window.of([1, 1, 1], 0, 0), Noise(3, np.arange(n), 0))
    found = np.bincount(np.bincount(who, 1 << codes, minlength=n).astype(int), minlength=8)
    gelu = torch.nn.functional.gelu
    expected = np.zeros(8)
    for first, second, third in product((0, 1), repeat=3):
        state = torch.tensor([0.0, 1.5 * first, 1.5 * first + 0.7 * second])
        chance = torch.sigmoid(bias + gelu(state) * lifted[:, 0])
        drawn = torch.tensor([first, second, third])
        expected[first + 2 * second + 4 * third] = float(torch.where(drawn == 1, chance, 1 - chance).prod()) * n
    assert ((found - expected) ** 2 / expected).sum() < 24.3  # one time in a thousand
