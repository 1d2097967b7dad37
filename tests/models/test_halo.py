"""HALO's head against a dense restatement of the reference: the same logits, losses, gradients and frequencies."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from adapcla.errors import AdapclaError, UsageError
from adapcla.models.base import DrawRule
from adapcla.models.draws import Noise
from adapcla.models.halo import HaloHead

WIDTH = 6


class DenseHalo:
    """The reference as it is written: [history, visit] through two masked square layers, read one place earlier."""

    def __init__(self, head: HaloHead) -> None:
        n = head.bias.shape[0]
        size = WIDTH + n
        self.first, self.first_bias = torch.zeros(size, size), torch.zeros(size)
        self.first[:WIDTH, :WIDTH] = head.history.weight
        self.first[WIDTH:, :WIDTH] = head.history_to_hidden.weight
        self.first[WIDTH:, WIDTH:] = head.codes_to_hidden.dense()
        self.first_bias[:WIDTH], self.first_bias[WIDTH:] = head.history.bias, head.history_to_hidden.bias
        # Place WIDTH − 1 + j of the output belongs to code j, which is why it sees the codes before j alone.
        self.second, self.second_bias = torch.zeros(size, size), torch.zeros(size)
        self.second[WIDTH - 1 : -1, :WIDTH] = head.history_to_code.weight
        self.second[WIDTH:, WIDTH:] = torch.cat([head.hidden_to_code.dense()[1:], torch.zeros(1, n)])
        self.second_bias[WIDTH - 1 : -1] = head.bias
        self.mask = torch.tril(torch.ones(size, size))

    @torch.no_grad()
    def logits(self, history: torch.Tensor, visits: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([history, visits], dim=1)
        hidden = torch.relu(F.linear(rows, self.mask * self.first, self.first_bias))
        return F.linear(hidden, self.mask * self.second, self.second_bias)[:, WIDTH - 1 : -1]


def made(n_codes: int, block: int, scale: float = 1.0) -> HaloHead:
    torch.manual_seed(3)
    head = HaloHead(n_codes, WIDTH, torch.linspace(-0.5, -2.0, n_codes), block=block)
    with torch.no_grad():
        for name, value in head.named_parameters():
            if name != "bias":
                value.mul_(scale)
    return head


def some_visits(n_codes: int, n_visits: int = 7):
    draw = np.random.default_rng(5)
    present = torch.from_numpy(draw.random((n_visits, n_codes)) < 0.3)
    present[2] = False
    present[2, n_codes - 1] = True
    rows, codes = present.nonzero(as_tuple=True)
    return present.float(), SimpleNamespace(row_before=torch.arange(n_visits) // 2, visit_of_entry=rows, codes=codes)


@pytest.mark.parametrize("n_codes, block", [(11, 4), (12, 4), (9, 64)])
def test_the_logits_are_those_of_the_dense_restatement(n_codes, block):
    head = made(n_codes, block, scale=3.0)
    dense, visits = some_visits(n_codes)
    states = torch.randn(4, WIDTH)
    expected = DenseHalo(head).logits(states[visits.row_before], dense)
    assert torch.allclose(head.teacher_forced_logits(states, visits), expected, atol=1e-5)


@pytest.mark.parametrize("positive_weight", [1.0, 1.5])
def test_loss_and_gradients_are_those_of_plain_cross_entropy(positive_weight):
    """The same head with a loss that autograd differentiates by itself."""
    head = made(11, 4, scale=3.0)
    dense, visits = some_visits(11)
    states = torch.randn(4, WIDTH, requires_grad=True)
    extra = torch.linspace(0, 1, 11)
    head.loss(states, visits, extra, positive_weight).backward()
    got = [states.grad.clone(), *(p.grad.clone() for p in head.parameters())]
    states.grad = None
    head.zero_grad()
    history = states[visits.row_before]
    hidden, units = head._hidden_units(history, visits), head._history_units(history)
    columns = [
        hidden[:, :low] @ head.hidden_to_code.before[k] + hidden[:, low:high] @ head.hidden_to_code.square(k)
        for k, low, high in head.hidden_to_code.spans()
    ]
    logits = head.bias + extra + units @ head.history_to_code.weight.t() + torch.cat(columns, dim=1)
    weight = torch.tensor(positive_weight)
    plain = F.binary_cross_entropy_with_logits(logits, dense, reduction="sum", pos_weight=weight)
    plain.backward()
    for mine, theirs in zip(got, [states.grad, *(p.grad for p in head.parameters())], strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)


def test_the_likelihood_of_all_visits_sums_to_one():
    """Three codes have eight possible visits; under one history their probabilities sum to 1."""
    head = made(3, 2, scale=4.0)
    every = torch.tensor([[i >> k & 1 for k in range(3)] for i in range(8)])
    rows, codes = every.nonzero(as_tuple=True)
    visits = SimpleNamespace(row_before=torch.zeros(8, dtype=torch.int64), visit_of_entry=rows, codes=codes)
    nll = head.nll(torch.randn(1, WIDTH), visits)
    assert float(torch.exp(-nll).sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("block", [2, 64])
def test_drawn_visits_have_the_frequencies_of_the_law(block):
    """Four codes, sixteen visits, 20,000 draws: χ² against the exact probabilities, with temperature and shift."""
    n_codes, n = 4, 20_000
    head = made(n_codes, block, scale=2.0)
    states = torch.randn(1, WIDTH)
    shift = torch.tensor([0.4, -0.3, 0.0, 1.0])
    every = torch.tensor([[i >> k & 1 for k in range(n_codes)] for i in range(1 << n_codes)])
    logits = DenseHalo(head).logits(states.expand(len(every), -1), every.float()) / 1.3 + shift
    chance = torch.exp((every * logits - F.softplus(logits)).sum(1)).double().numpy()
    rows, noise = torch.zeros(n, dtype=torch.int64), Noise(99, np.arange(n), 0)
    who, codes = head.draw(states, rows, DrawRule(shift, 1.3), noise).drawn
    number = np.bincount(who, weights=2.0**codes, minlength=n).astype(int)
    seen = np.bincount(number, minlength=len(chance))
    assert stats.chisquare(seen, chance / chance.sum() * n).pvalue > 1e-3
    wrong = np.roll(chance, 1) / chance.sum() * n
    assert stats.chisquare(seen, wrong).pvalue < 1e-6  # the test can fail


def test_a_removed_code_never_comes_out_and_a_code_comes_out_once():
    head = made(6, 2)
    bias = torch.tensor([3.0, -torch.inf, 3.0, 3.0, 3.0, 3.0])
    who, codes = head.draw(torch.randn(50, WIDTH), None, DrawRule(bias), Noise(1, np.arange(50), 0)).drawn
    assert 1 not in codes
    assert len(np.unique(who * 6 + codes)) == len(codes) > 100


def test_patients_do_not_depend_on_their_neighbours():
    head = made(9, 4, scale=3.0)
    states = torch.randn(8, WIDTH)
    noise = Noise(5, np.arange(8), 3)
    who, codes = head.draw(states, None, DrawRule(), noise).drawn
    some = np.array([6, 1])
    few_who, few_codes = head.draw(states[some], None, DrawRule(), noise.keep(some)).drawn
    for position, patient in enumerate(some):
        assert set(codes[who == patient]) == set(few_codes[few_who == position])


def test_what_it_cannot_do_it_says():
    head = made(4, 2)
    with pytest.raises(UsageError, match="code by code"):
        head.draw(torch.zeros(1, WIDTH), None, DrawRule(counts=np.array([3])), Noise(1, np.arange(1), 0))
    with pytest.raises(AdapclaError, match="not finite"):
        head.draw(torch.full((1, WIDTH), torch.nan), None, DrawRule(), Noise(1, np.arange(1), 0))
