"""Whether a network fits into memory, checked before any memory is taken."""

from __future__ import annotations

import torch

from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.generation.settings import Settings
from adapcla.machine import GIGABYTE, available_bytes
from adapcla.models.base import Shape

#: Bytes that a parameter costs while it is trained: itself, its gradient, two moments, the best value so far, and all
#: but the gradient once more while a checkpoint is written.
BYTES_A_PARAMETER = 36


def demand_memory(settings: Settings, shape: Shape, prevalence: Prevalence) -> int:
    """The bytes that training this network takes at least; an error with a remedy where they are not free."""
    with torch.device("meta"):
        network = settings.network(shape, prevalence)
    n = sum(parameter.numel() for parameter in network.parameters())
    needed, free = BYTES_A_PARAMETER * n, available_bytes()
    if free is not None and needed > free:
        raise UsageError(
            f"{settings.method} on {shape.n_codes:,} codes has {n:,} parameters; training it needs "
            f"{needed / GIGABYTE:.1f} GB of memory and {free / GIGABYTE:.1f} GB are free\n"
            "to do: a smaller --set width=…, fewer codes by --min-support, or another --method"
        )
    return needed
