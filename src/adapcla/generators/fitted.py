"""What a fit leaves behind; everything that a saved model holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from adapcla.generators.sampling import AttributeLaw
from adapcla.networks.contract import Network, Shape
from adapcla.records import Prevalence


@dataclass(eq=False)
class Fitted:
    """What a fit leaves behind; everything that a bundle saves."""

    network: Network
    prevalence: Prevalence
    law: AttributeLaw
    shape: Shape
    #: Number of codes of training visits: value i is the count of visits with i codes.
    visit_sizes: NDArray[np.int64]
    longest: int
    facts: dict[str, Any]

    @property
    def modules(self) -> nn.Module:
        """The network as torch sees it."""
        return self.network  # type: ignore[return-value]
