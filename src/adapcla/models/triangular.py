"""Triangular weight matrices kept in blocks: half the numbers, half the work, and a mask only where the corner is cut.

A square lower-triangular matrix (outputs × inputs) is a row of blocks of outputs. Each block has a rectangle over the
inputs before it, which is whole, and a small square on the diagonal, of which the upper corner is cut away at every
use, so that not even a damaged file can let a code see a later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TriangularBlocks(nn.Module):
    """A lower-triangular matrix (size, size); with `strict` the diagonal itself is zero as well.

    Rectangles are stored (inputs before, block), so that the weights of one input are contiguous and a sparse input is
    a gather of rows.
    """

    def __init__(self, size: int, block: int, strict: bool, bound: float) -> None:
        super().__init__()
        self.size, self.strict = size, strict
        self.edges = [*range(0, size, block), size]
        spans = list(pairwise(self.edges))
        self.before = nn.ParameterList(nn.Parameter(_uniform(low, high - low, bound)) for low, high in spans)
        self.corner = nn.ParameterList(nn.Parameter(_uniform(high - low, high - low, bound)) for low, high in spans)

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(number, first output, end of outputs) of each block."""
        for number, (low, high) in enumerate(pairwise(self.edges)):
            yield number, low, high

    def square(self, number: int) -> Tensor:
        """The diagonal block (inputs, outputs), its corner cut."""
        return torch.triu(self.corner[number], diagonal=1 if self.strict else 0)

    def gathered(self, codes: Tensor, visit_of_entry: Tensor, n_visits: int) -> Tensor:
        """The product with sparse 0/1 rows (visits, size): sums of the rows of the present inputs.

        `visit_of_entry` ascends, and the codes of a visit ascend.
        """
        out = []
        for number, low, high in self.spans():
            total = torch.zeros(n_visits, high - low)
            for table, first, end in ((self.before[number], 0, low), (self.square(number), low, high)):
                here = (codes >= first) & (codes < end)
                offsets = torch.searchsorted(visit_of_entry[here], torch.arange(n_visits))
                total = total + F.embedding_bag(codes[here] - first, table, offsets, mode="sum")
            out.append(total)
        return torch.cat(out, dim=1)

    @torch.no_grad()
    def dense(self) -> Tensor:
        """The whole matrix (outputs, inputs), zeros included; for small sizes and for tests."""
        whole = torch.zeros(self.size, self.size)
        for number, low, high in self.spans():
            whole[low:high, :low] = self.before[number].t()
            whole[low:high, low:high] = self.square(number).t()
        return whole


def _uniform(rows: int, columns: int, bound: float) -> Tensor:
    return torch.empty(rows, columns).uniform_(-bound, bound)
