"""The sparse loss is the dense one, in value and in gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapcla.models import losses
from adapcla.models.choice_groups import Groups, Run


def sparse_bce_plain(
    states: Tensor, weight: Tensor, bias: Tensor, targets: losses.SparseTargets, positive_weight: float = 1.0
) -> Tensor:
    """The summed loss of states (rows, d), as autograd differentiates it by itself."""
    states, targets = losses.predicting_rows(states, targets)
    return losses.bce_of_logits(torch.addmm(bias, states, weight.t()), targets, positive_weight)


@given(
    seed=st.integers(0, 10_000),
    n_visits=st.integers(0, 9),
    n_codes=st.sampled_from([1, 8, 150]),
    density=st.sampled_from([0.0, 0.3]),
    tile=st.sampled_from([(64, 2), (640, 3), (1 << 18, 2048)]),
    weight=st.sampled_from([1.0, 1.5]),
    choosing=st.booleans(),
)
def test_by_hand_and_plain_agree(
    agree: Callable[..., None], some_groups: Callable[[int], Groups | None],
    seed: int, n_visits: int, n_codes: int, density: float, tile: tuple[int, int], weight: float, choosing: bool,
) -> None:  # fmt: skip
    """Tiles of 2 or 3 rows, or one of everything; some rows predict no visit, some several; visits may be empty."""
    torch.manual_seed(seed)
    n_rows = 5
    visit_rows = torch.randint(0, n_rows, (n_visits,))
    visit, code = (torch.rand(n_visits, n_codes) < density).nonzero(as_tuple=True)
    groups = some_groups(n_codes) if choosing else None
    targets = losses.sparse_targets(visit_rows[visit], code, visit_rows, n_rows, groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "TILE_ELEMENTS", tile[0])
        patch.setattr(losses, "TILE_ROWS", tile[1])
        by_hand, plain = (
            lambda *leaves, loss=loss: loss(
                *leaves, targets._replace(multiplicity=targets.multiplicity.to(leaves[0].dtype)), weight
            )
            for loss in (losses.sparse_bce, sparse_bce_plain)
        )
        agree(by_hand, plain, [torch.randn(n_rows, 4), torch.randn(n_codes, 4), torch.randn(n_codes)])


@pytest.mark.parametrize("positive_weight", [1.0, 1.5])
@pytest.mark.parametrize("choosing", [False, True])
def test_the_gradient_is_that_of_small_steps(
    some_groups: Callable[[int], Groups | None], positive_weight: float, choosing: bool
) -> None:
    torch.manual_seed(1)
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (9, 2), (9,))]
    times = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    groups = some_groups(9) if choosing else None
    targets = losses.SparseTargets(torch.tensor([0, 2, 2]), torch.tensor([8, 0, 3]), times, groups)
    assert torch.autograd.gradcheck(lambda *parts: losses.sparse_bce(*parts, targets, positive_weight), leaves)


@pytest.mark.parametrize("positive_weight", [1.0, 1.5])
def test_the_plain_form_is_torchs_loss_of_a_dense_target(positive_weight: float) -> None:
    """Three visits by two rows; the second visit is empty."""
    torch.manual_seed(1)
    states, weight, bias = torch.randn(2, 4), torch.randn(6, 4), torch.randn(6)
    visit_rows, visit, code = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2]), torch.tensor([1, 5, 2])
    target = torch.zeros(3, 6).index_put_((visit, code), torch.ones(3))
    dense = F.binary_cross_entropy_with_logits(
        (states @ weight.t() + bias)[visit_rows], target, reduction="sum", pos_weight=torch.full((6,), positive_weight)
    )
    targets = losses.sparse_targets(visit_rows[visit], code, visit_rows, 2)
    plain = sparse_bce_plain(states, weight, bias, targets, positive_weight)
    assert float(plain) == pytest.approx(float(dense), rel=1e-5)


def test_the_plain_form_of_a_choice_is_torchs_cross_entropy() -> None:
    """One visit of codes 1 and 4: a choice of three beside none, a code of its own, a choice of two of which none."""
    torch.manual_seed(1)
    logits = torch.randn(1, 7)
    groups = Groups((Run(0, 1, 3, 0), Run(5, 1, 2, 1)), 7)
    targets = losses.SparseTargets(torch.tensor([0, 0]), torch.tensor([1, 4]), torch.ones(1), groups)
    three, two = (F.pad(part, (0, 1)) for part in (logits[:, :3], logits[:, 5:]))
    apart = F.cross_entropy(three, torch.tensor([1])) + F.cross_entropy(two, torch.tensor([2]))
    apart = apart + F.binary_cross_entropy_with_logits(logits[0, 3:5], torch.tensor([0.0, 1.0]), reduction="sum")
    assert float(losses.bce_of_logits(logits, targets)) == pytest.approx(float(apart), rel=1e-6)
    # A present code weighs more, and with it the whole choice.
    extra = 0.5 * (F.cross_entropy(three, torch.tensor([1])) + F.softplus(-logits[0, 4]))
    assert float(losses.bce_of_logits(logits, targets, 1.5)) == pytest.approx(float(apart + extra), rel=1e-6)


@pytest.mark.parametrize("largest", [-3.0, 3.99, 4.01, 60.0])
@pytest.mark.parametrize("n_codes", [1, 7, 8, 1003])
def test_sums_of_softplus_are_right_for_mild_and_for_extreme_logits(largest: float, n_codes: int) -> None:
    """On both sides of the border between logarithms of products and the plain way."""
    torch.manual_seed(3)
    logits = torch.randn(4, n_codes) * 3 - 8
    logits[0], logits[1, 0] = largest, largest
    logits.clamp_(max=largest)
    wanted, chance = F.softplus(logits.double()).sum(1), torch.sigmoid(logits)
    torch.testing.assert_close(losses.softplus_sums_(logits).double(), wanted, rtol=2e-6, atol=5e-6)
    torch.testing.assert_close(logits, chance)


def test_logits_that_are_not_finite_are_not_hidden() -> None:
    assert not torch.isfinite(losses.softplus_sums_(torch.tensor([[0.0, torch.nan]]))).all()
    assert not torch.isfinite(losses.softplus_sums_(torch.tensor([[0.0, torch.inf]]))).all()
