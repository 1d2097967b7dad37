"""Blocks of codes: how many, how large, and in which order."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.models.block_order import all_blocks
from adapcla.models.families.visits import VisitArchitecture


@pytest.mark.parametrize(("n_codes", "blocks"), [(600, 120), (300, 75), (200, 60), (40, 40)])
def test_small_vocabularies_have_fewer_blocks(n_codes: int, blocks: int) -> None:
    """Sixty at any rate, as far as there are codes, and beyond that one for four codes."""
    asked = VisitArchitecture(head="blockwise", blocks=120, counting=True)
    sizes, order = all_blocks(asked, np.full(n_codes, 9.0), None)
    assert len(sizes) == blocks and sum(sizes) == len(order) == n_codes


@pytest.mark.parametrize(
    ("order", "first"), [("frequent", [0, 1, 2]), ("tried", [0, 1, 2]), ("rare", [59, 58, 57]), ("mixed", [59, 58, 57])]
)
def test_codes_come_in_the_order_that_is_asked_for(order: str, first: list[int]) -> None:
    """Sixty codes of 600, 590, … 10 visits; of the mixed order the nine of fewer than 100 come first."""
    asked = VisitArchitecture(head="blockwise", blocks=9, order=order)  # type: ignore[arg-type]
    sizes, codes = all_blocks(asked, np.arange(600.0, 0.0, -10.0), None)
    assert sum(sizes) == 60 and sorted(codes.tolist()) == list(range(60))
    assert codes[:3].tolist() == first
    if order == "mixed":
        assert codes[9:12].tolist() == [0, 1, 2] and sizes[0] + sizes[1] == 9
