"""Blocks that are multiplied together give what each gives alone."""

from __future__ import annotations

import pytest
import torch

from adapcla.models.kernels.segments import Segment, SmallBlocks, segments_of

#: Where blocks begin: ten of one to four codes, then two of twenty.
EDGES = (0, 1, 3, 4, 8, 9, 11, 14, 15, 16, 20, 40, 60)


def of(codes: slice) -> list[Segment | SmallBlocks]:
    return segments_of(codes, EDGES)


def test_small_blocks_are_together_and_cut_ones_apart() -> None:
    assert [type(part) for part in of(slice(0, 60))] == [SmallBlocks, Segment, Segment]
    assert [type(part) for part in of(slice(2, 30))] == [Segment, SmallBlocks, Segment]
    assert len(of(slice(0, 9))) == 5  # too few to be worth it


@pytest.mark.parametrize("codes", [slice(0, 60), slice(2, 30)])
@pytest.mark.parametrize("first", [True, False])
def test_every_code_gets_the_product_of_its_block(codes: slice, first: bool) -> None:
    torch.manual_seed(1)
    block = torch.bucketize(torch.arange(60), torch.tensor(EDGES[1:]), right=True)
    inner, lifted = torch.randn(5, 12, 3, requires_grad=True), torch.randn(60, 3, requires_grad=True)
    residual, logits = torch.randn(5, codes.stop - codes.start), torch.zeros(5, codes.stop - codes.start)
    wanted = (inner[:, block] * lifted).sum(2)[:, codes]
    by_inner, by_lifted = torch.autograd.grad(wanted, (inner, lifted), residual)
    found = [torch.zeros_like(inner), torch.zeros_like(lifted)]
    sums, plain = torch.zeros(5, 12), torch.zeros(5, 12).index_add(1, block[codes], residual)
    with torch.no_grad():
        for part in of(codes):
            part.add(logits, inner, lifted)
            part.take_back(residual, inner, lifted, found[0], found[1], first)
            part.add_sums(sums, residual)
            of_codes = part.of_codes(torch.arange(12.0).expand(5, 12)).expand_as(residual[:, part.in_tile])
            assert torch.equal(of_codes[0], block[codes][part.in_tile].float())
    for one, other in ((logits, wanted), (found[0], by_inner), (found[1], by_lifted), (sums, plain)):
        torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-5)
