"""One step of a plan: what it is, where its result lies, and whether it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapcla.pipeline.folder import is_done


@dataclass(frozen=True)
class Step:
    """One thing to do, unless it was done with the same settings."""

    stage: str
    what: str
    folder: Path
    key: str
    #: Rough seconds on two cores.
    seconds: float
    work: Callable[[], Any] = field(repr=False)
    #: Steps of one stage and kind take about as long.
    kind: str = ""
    #: Row and fit seed that the step belongs to: where a method fails, the other rows go on.
    fit: tuple[str, int] | None = None
    #: Whether the step is still wanted when its turn has come: what another step found may have made it needless.
    wanted: Callable[[], bool] = field(default=lambda: True, repr=False)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return is_done(self.folder, self.key)
