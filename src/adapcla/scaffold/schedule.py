"""The weight of the scaffold over training (the paper's α), from progress 0 to progress 1."""

from __future__ import annotations

import math
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
        return known.get(self, f"ramp:{self.hold!r},{self.release!r}")

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

    def __post_init__(self) -> None:
        if not 0 <= self.level < math.inf:
            raise UsageError(f"constant:{self.level}: expected a weight of 0 or more")

    @property
    def name(self) -> str:
        """`constant`, `none`, or `constant:LEVEL` for any other weight."""
        return {1.0: "constant", 0.0: "none"}.get(self.level, f"constant:{self.level!r}")

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
    """The schedule of this name, `ramp:HOLD,RELEASE` for any ramp, or `constant:LEVEL` for any weight.

    >>> schedule("base")
    Ramp(hold=0.3, release=0.7)
    >>> schedule("ramp:0.3,0.5").weight(0.4)
    0.5
    """
    if name in _NAMED:
        return _NAMED[name]
    kind, _, text = name.partition(":")
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if kind == "ramp" and len(numbers) == 2:
        return Ramp(numbers[0], numbers[1])
    if kind == "constant" and len(numbers) == 1:
        return Constant(numbers[0])
    raise UsageError(
        f"schedule {name!r}: expected one of {', '.join(SCHEDULES)}, ramp:HOLD,RELEASE with two numbers from 0 to 1, "
        "or constant:LEVEL"
    )
