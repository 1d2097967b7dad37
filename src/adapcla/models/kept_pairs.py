"""What is kept of pairs of codes: those of several training patients, and no count of them but its band."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adapcla.models.layers import Settling
from adapcla.models.pair_counts import COUNT_EDGES, N_COLUMNS, told


class KeptPairs(nn.Module, Settling):
    """A part of a network that knows pairs; which ones is found when it observes the training patients."""

    def __init__(self, n_pairs: int, least_patients: int, n_codes: int) -> None:
        super().__init__()
        self.least_patients, self.n_codes = least_patients, n_codes
        self.first: Tensor
        self.second: Tensor
        self.cell: Tensor
        for name in ("first", "second", "cell"):
            self.register_buffer(name, torch.zeros(n_pairs, dtype=torch.int32))

    @property
    def index_limits(self) -> dict[str, int]:
        """What the entries of saved indices must stay below, by name."""
        cells = len(COUNT_EDGES) * N_COLUMNS
        return {"first": self.n_codes, "second": self.n_codes, "cell": cells}

    @property
    def n_pairs(self) -> int:
        """Pairs that are kept."""
        return len(self.first)

    @torch.no_grad()
    def settled(self) -> dict[str, Tensor]:
        """The bands of pairs, in which all counts too small to be told are one: that of the middle one of them."""
        row, column = self.cell // N_COLUMNS, self.cell % N_COLUMNS
        return {"cell": (told(row) * N_COLUMNS + column).int()}
