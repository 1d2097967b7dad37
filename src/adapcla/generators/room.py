"""Whether a network fits into memory, known before any of it is taken."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import torch

from adapcla.errors import UsageError
from adapcla.generators.families import network_for
from adapcla.generators.settings import Settings
from adapcla.networks.contract import Shape
from adapcla.records import Prevalence

#: Bytes that a parameter costs while it is trained: itself, its gradient, two moments, the best value so far, and all
#: but the gradient once more while a checkpoint is written.
BYTES_A_PARAMETER = 36
_GB = 1e9


def available_bytes() -> int | None:
    """Memory that this process may still take: what the machine, its container and its limit leave; None if unknown.

    >>> available_bytes() is None or available_bytes() >= 0
    True
    """
    found = [_of_machine(), _of_container(), _of_limit()]
    known = [n for n in found if n is not None]
    return max(0, min(known)) if known else None


def _field(path: str, name: str) -> int | None:
    """A number of kB from one of the kernel's tables, in bytes."""
    try:
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _of_machine() -> int | None:
    return _field("/proc/meminfo", "MemAvailable:")


def _of_container() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    except (OSError, ValueError):
        return None


def _of_limit() -> int | None:
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _field("/proc/self/status", "VmSize:")
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used


def demand_room(settings: Settings, shape: Shape, prevalence: Prevalence) -> int:
    """The bytes that training this network takes at least; an error with a remedy where they are not there."""
    with torch.device("meta"):
        modules: Any = network_for(settings, shape, prevalence)
    n = sum(parameter.numel() for parameter in modules.parameters())
    needed, free = BYTES_A_PARAMETER * n, available_bytes()
    if free is not None and needed > free:
        raise UsageError(
            f"{settings.method} on {shape.n_codes:,} codes has {n:,} parameters; training it needs "
            f"{needed / _GB:.1f} GB of memory and {free / _GB:.1f} GB are free\n"
            "to do: a smaller --set width=…, fewer codes by --min-support, or another --method"
        )
    return needed
