"""A training run with probes and kernels recorded along the way; every schedule takes the same steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adapcla.data import Cohort
from adapcla.generation import Generator, generator_for
from adapcla.study.analysis.coupling import ContextKernel, KernelObserver
from adapcla.study.analysis.probes import ProbeSet
from adapcla.study.analysis.trajectories import LOOKS, ProbeObserver, Trajectory

#: Looks without improvement before a run ends: never, so that runs can be compared step by step.
NEVER = 1_000_000


@dataclass(frozen=True, eq=False)
class Probed:
    """A fitted generator and what was seen while it was fitted."""

    generator: Generator
    trajectory: Trajectory
    kernels: tuple[ContextKernel, ...] = ()


def probed_fit(
    train: Cohort,
    valid: Cohort,
    probes: ProbeSet,
    method: str = "adapcla",
    changes: dict[str, Any] | None = None,
    kernels: bool = False,
    looks: int = LOOKS,
) -> Probed:
    """Fit a method over its whole budget, with probes along the way and, if asked, kernels before the first step."""
    generator = generator_for(method, **{"patience": NEVER, **(changes or {})})
    watcher = ProbeObserver(generator, probes, looks)
    before = KernelObserver(generator, probes) if kernels else None
    generator.fit(train, valid, observers=[watcher] if before is None else [watcher, before])
    return Probed(generator, watcher.trajectory(), () if before is None else tuple(before.kernels))
