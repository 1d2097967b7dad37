"""The weight of the scaffold over training (the paper's α), from progress 0 to progress 1."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Protocol

from adapcla.errors import UsageError


class Schedule(Protocol):
    """Anything with a weight for each progress in [0, 1]."""

    @property
    def name(self) -> str:
        """How to ask for this schedule."""

    def weight(self, progress: float) -> float:
        """α at this progress."""


@dataclass(frozen=True)
class Ramp:
    """Full weight until `hold`, then straight down to zero at `release`.

    >>> [Ramp(0.3, 0.7).weight(p) for p in (0.0, 0.3, 0.5, 0.7, 1.0)]
    [1.0, 1.0, 0.5, 0.0, 0.0]
    """

    hold: float
    release: float

    def __post_init__(self) -> None:
        if not 0 <= self.hold <= self.release <= 1:
            raise UsageError(f"ramp:{self.hold},{self.release}: expected 0 ≤ hold ≤ release ≤ 1")

    @property
    def name(self) -> str:
        """The spelling that `schedule` reads back."""
        known = {ramp: name for name, ramp in _NAMED.items() if isinstance(ramp, Ramp)}
        return known.get(self, f"ramp:{self.hold:g},{self.release:g}")

    def weight(self, progress: float) -> float:
        """α at this progress."""
        if progress <= self.hold:
            return 1.0
        if progress >= self.release:
            return 0.0
        return float(round((self.release - progress) / (self.release - self.hold), 12))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to 0.

    >>> Cosine().weight(0.5)
    0.5
    """

    name: str = "cosine"

    def weight(self, progress: float) -> float:
        """α at this progress."""
        return round(0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0))), 12)


@dataclass(frozen=True)
class Constant:
    """The same weight throughout: 1 is Static-PCLA, 0 is plain training.

    >>> Constant(1.0).weight(0.9)
    1.0
    """

    level: float

    @property
    def name(self) -> str:
        """`constant` or `none`."""
        return "constant" if self.level else "none"

    def weight(self, progress: float) -> float:
        """α at this progress."""
        return self.level


_NAMED: dict[str, Schedule] = {
    "base": Ramp(0.3, 0.7),
    "fast": Ramp(0.1, 0.5),
    "slow": Ramp(0.5, 0.9),
    "linear": Ramp(0.0, 1.0),
    "cosine": Cosine(),
    "constant": Constant(1.0),
    "none": Constant(0.0),
}
SCHEDULES = tuple(_NAMED)


def schedule(name: str) -> Schedule:
    """The schedule of this name, or `ramp:HOLD,RELEASE` for any ramp.

    >>> schedule("base")
    Ramp(hold=0.3, release=0.7)
    >>> schedule("ramp:0.3,0.5").weight(0.4)
    0.5
    """
    if name in _NAMED:
        return _NAMED[name]
    match = re.fullmatch(r"ramp:([0-9.]+),([0-9.]+)", name)
    if not match:
        raise UsageError(f"schedule {name!r}: expected one of {', '.join(SCHEDULES)}, or ramp:HOLD,RELEASE")
    try:
        return Ramp(float(match[1]), float(match[2]))
    except ValueError:
        raise UsageError(f"schedule {name!r}: expected two numbers from 0 to 1") from None
