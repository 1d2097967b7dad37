"""Tables of codes that are mixed at once are what they are one by one, and so are their gradients."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.kernels.mixed import Level, mixed, mixed_plain


@pytest.mark.parametrize("believed", [True, False])
@pytest.mark.parametrize("n_levels", [1, 2, 4])
def test_tables_and_gradients_are_the_plain_ones(n_levels: int, believed: bool) -> None:
    torch.manual_seed(2)
    n_codes, sizes = 30, [30, 12, 5, 1][:n_levels]
    parts = [torch.randn(size, 7, dtype=torch.float64, requires_grad=True) for size in sizes]
    # Some families have no code at all.
    levels = [Level.of(torch.randint(max(size - 2, 1), (n_codes,)), size) for size in sizes[1:]]
    beliefs = [torch.rand(n_codes, 1, dtype=torch.float64) for _ in sizes] if believed else []
    upstream = torch.randn(n_codes, 7, dtype=torch.float64)
    one, other = mixed(parts, levels, beliefs), mixed_plain(parts, levels, beliefs)
    torch.testing.assert_close(one, other)
    for a, b in zip(
        torch.autograd.grad(one, parts, upstream), torch.autograd.grad(other, parts, upstream), strict=True
    ):
        torch.testing.assert_close(a, b)
