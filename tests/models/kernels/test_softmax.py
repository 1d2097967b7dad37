"""Cross-entropy over tokens of which some are impossible."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from adapcla.models.kernels import softmax
from adapcla.models.kernels.softmax import Choices, masked_cross_entropy, masked_cross_entropy_plain, masked_nll


def question():
    """Three rows over four codes, a separator and an end; row 1 may only take code 3, row 2 has code 1 gone."""
    choices = Choices(
        torch.tensor([0, 3, 0]),
        torch.tensor([True, False, True]),
        torch.tensor([False, False, True]),
        torch.tensor([2]),
        torch.tensor([1]),
    )
    allowed = torch.tensor([[1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1]]).bool()
    return choices, allowed, torch.tensor([4, 3, 5])


@given(
    n_rows=st.integers(1, 7),
    n_codes=st.integers(1, 9),
    shuffled=st.booleans(),
    chunk=st.sampled_from([1, 30, 1 << 24]),
    seed=st.integers(0, 50),
)
def test_by_hand_and_plain_agree(
    agree: Callable[..., None], n_rows: int, n_codes: int, shuffled: bool, chunk: int, seed: int
) -> None:
    """Codes below a floor are impossible, or single ones; in chunks of one row, of a few, and of all."""
    torch.manual_seed(seed)
    yes = torch.ones(n_rows, dtype=torch.bool)
    gone = (torch.rand(n_rows, n_codes) < 0.4 * shuffled).nonzero(as_tuple=True)
    floor = torch.zeros(n_rows, dtype=torch.int64) if shuffled else torch.randint(0, n_codes + 1, (n_rows,))
    choices = Choices(floor, yes, torch.rand(n_rows) < 0.5, *gone)
    possible = choices.apply(torch.zeros(n_rows, n_codes + 2)) == 0
    targets = torch.multinomial(possible.float(), 1)[:, 0]
    losses = (
        lambda *leaves, loss=loss: loss(*leaves, choices, targets)
        for loss in (masked_cross_entropy, masked_cross_entropy_plain)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "CHUNK_ELEMENTS", chunk)
        agree(*losses, [torch.randn(n_rows, 5), torch.randn(n_codes + 2, 5), torch.randn(n_codes + 2)])


def test_the_gradient_is_that_of_small_steps() -> None:
    choices, _, targets = question()
    torch.manual_seed(1)
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 5), (6, 5), (6,))]
    assert torch.autograd.gradcheck(lambda *parts: masked_cross_entropy(*parts, choices, targets), leaves)


def test_impossible_tokens_are_out_of_the_sum() -> None:
    """The plain form against cross-entropy over the allowed columns."""
    choices, allowed, targets = question()
    torch.manual_seed(1)
    states, weight, bias = torch.randn(3, 5), torch.randn(6, 5), torch.randn(6)
    logits = (states @ weight.t() + bias).masked_fill(~allowed, -torch.inf)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    plain = masked_cross_entropy_plain(states, weight, bias, choices, targets)
    assert float(plain) == pytest.approx(float(expected), rel=1e-5)


def test_the_only_choice_costs_nothing_and_the_end_is_told_where_it_can_come():
    choices, _, targets = question()
    nll, end = masked_nll(torch.zeros(3, 2), torch.zeros(6, 2), torch.zeros(6), choices, targets)
    assert nll.tolist() == pytest.approx([torch.tensor(5.0).log().item(), 0.0, torch.tensor(5.0).log().item()])
    assert end[0] == end[1] == -torch.inf
    assert float(end[2].exp()) == pytest.approx(0.2)
