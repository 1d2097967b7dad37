"""Visits that must hold or lack codes: hazards and draws against the likelihood of every visit there is."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.data import Cohort
from adapcla.models.base import FREE, NONE, DrawRule, Network, Passage, Shape
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.models.registry import FAMILIES

LETTERS = "ABCDE"
VISITS = [some for size in range(1, 6) for some in combinations(LETTERS, size)]
#: More of A than of B, and so on, so that positions are those of the letters.
COHORT = Cohort.of([[list(visit)] for visit in VISITS] + [[[letter]] for letter in LETTERS for _ in range(30)])
N = 8000
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", {"heads": 2}),
    "tailwise": ("gpt", {"heads": 2, "prior": True, "shrinkage": 5.0, "copy_head": True}),
    "independent": ("visits", {"heads": 2}),
    "halo": ("visits", {"heads": 2, "head": "halo"}),
    "marginal": ("marginal", {}),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    """A network of five codes that know each other where it can."""
    family, settings = NETWORKS[request.param]
    torch.manual_seed(4)
    size = {"width": 16, "layers": 1, "context": 6} if family != "marginal" else {"context": 6}
    shape = Shape(5, 6)
    made = FAMILIES[family].network(FAMILIES[family].architecture(**size, **settings), shape, COHORT.prevalence())
    made.observe(Records(COHORT, 6), shape)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return made.eval()


def chances(network: Network, bias: torch.Tensor | None) -> np.ndarray:
    """The probability of each of `VISITS` as a first visit, whether or not it is followed by another."""
    single = Cohort.of([[list(visit)] for visit in VISITS], COHORT.vocabulary)
    batch = Records(single, 6).batch(np.arange(len(VISITS)))
    return np.asarray(torch.exp(-network.likelihood(batch, bias).codes).double().numpy())


def drawn(network: Network, codes: np.ndarray, target: int, bias: torch.Tensor | None) -> tuple[np.ndarray, Any]:
    """Which of `VISITS` each of N patients got, −1 for an empty one, and the hazards."""
    noise = Noise(7, np.arange(N), 0)
    passage = Passage(codes, np.full(N, target), np.zeros(N, dtype=np.int64))
    visit = network.draw_visit(
        network.begin(torch.zeros(N, 0, dtype=torch.int64), noise), DrawRule(bias, passage=passage), noise
    )
    number = np.bincount(visit.who, weights=2.0**visit.codes, minlength=N).astype(int)
    keys = np.full(32, -1)
    keys[[sum(2 ** LETTERS.index(letter) for letter in one) for one in VISITS]] = np.arange(len(VISITS))
    return keys[number], visit.hazard


def holds(letter: str) -> np.ndarray:
    return np.array([letter in visit for visit in VISITS])


@pytest.mark.parametrize("clause", ["E", "BD", "ABCDE"])
@pytest.mark.parametrize("shifted", [False, True])
def test_visits_that_lack_codes_say_how_probable_it_was_to_hold_them(
    clause: str, shifted: bool, network: Network
) -> None:
    bias = torch.linspace(-1, 1, 5) if shifted else None
    codes = np.array([LETTERS.index(letter) for letter in clause])
    number, hazard = drawn(network, codes, NONE, bias)
    some = np.zeros(len(VISITS), dtype=bool)
    for place, code in enumerate(codes):
        held = number[number >= 0]
        assert not holds(LETTERS[code])[held].any()
        # The code comes, and none of the clause before it in the order of drawing.
        first = hazard[:, place] * np.prod(1 - hazard[:, :place], axis=1)
        exact = float(chances(network, bias)[holds(LETTERS[code]) & ~some].sum())
        assert abs(first.mean() - exact) < 4.5 * first.std() / np.sqrt(N) + 1e-6
        some |= holds(LETTERS[code])


def test_visits_with_a_target_are_those_that_hold_it_weighed_by_its_hazard(network: Network) -> None:
    """χ² of draws that are taken in proportion to the hazard that was passed, against the conditional probabilities."""
    codes = np.array([1, 3])
    _, hazard = drawn(network, codes, NONE, None)
    number, _ = drawn(network, codes, 1, None)
    weight = (1 - hazard[:, 0]) * hazard[:, 1]
    taken = np.random.default_rng(1).random(N) < weight / weight.max()
    wanted = chances(network, None) * (holds(LETTERS[codes[1]]) & ~holds(LETTERS[codes[0]]))
    seen = np.bincount(number[taken], minlength=len(VISITS))
    assert (seen[wanted == 0] == 0).all()
    expected = wanted[wanted > 0] / wanted.sum() * taken.sum()
    assert stats.chisquare(seen[wanted > 0], expected).pvalue > 1e-4


def test_a_free_visit_is_the_one_that_is_drawn_without_a_passage(network: Network) -> None:
    noise = Noise(7, np.arange(N), 0)
    plain = network.draw_visit(network.begin(torch.zeros(N, 0, dtype=torch.int64), noise), DrawRule(), noise)
    number, _ = drawn(network, np.array([0, 2]), FREE, None)
    keys = np.bincount(plain.who, weights=2.0**plain.codes, minlength=N).astype(int)
    mine = [0 if i < 0 else sum(2 ** LETTERS.index(letter) for letter in VISITS[i]) for i in number]
    assert (keys == mine).mean() > 0.999
