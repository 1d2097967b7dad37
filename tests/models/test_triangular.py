"""Triangular blocks are the triangular matrix they stand for."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.halo import TriangularBlocks


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("size, block", [(5, 2), (6, 3), (4, 10)])
def test_a_gather_is_the_product_with_the_triangular_matrix(size, block, strict):
    torch.manual_seed(1)
    matrix = TriangularBlocks(size, block, strict, bound=1.0)
    visits = torch.tensor([[1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 1]])[:, :size]
    rows, codes = visits.nonzero(as_tuple=True)
    expected = visits.float() @ matrix.dense().t()
    assert torch.allclose(matrix.gather(codes, rows, 3), expected, atol=1e-6)
    assert torch.equal(torch.tril(matrix.dense(), -1 if strict else 0), matrix.dense())


def test_what_is_stored_above_the_diagonal_is_never_used():
    matrix = TriangularBlocks(4, 2, strict=True, bound=0.0)
    with torch.no_grad():
        for corner in matrix.corner:
            corner.fill_(7.0)
    assert matrix.dense().tolist() == [[0, 0, 0, 0], [7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 7, 0]]


def test_storage_is_about_half_of_the_square():
    matrix = TriangularBlocks(1000, 50, strict=True, bound=0.1)
    assert sum(p.numel() for p in matrix.parameters()) == (1000 * 1000 + 1000 * 50) // 2
