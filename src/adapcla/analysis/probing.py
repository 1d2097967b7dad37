"""A training run that is watched: same steps for every schedule, probes and kernels looked at along the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from adapcla.analysis.coupling import ContextKernel, KernelObserver
from adapcla.analysis.endpoint import endpoint_table
from adapcla.analysis.probes import ProbeKind, ProbeSet
from adapcla.analysis.schedules import explained_table, free_share, steepest
from adapcla.analysis.statistics import estimate
from adapcla.analysis.trajectories import LOOKS, MEASURES, ProbeObserver, Trajectory
from adapcla.console import say
from adapcla.generators import Generator, generator_for
from adapcla.records import Cohort
from adapcla.scaffold import schedule

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


@dataclass(frozen=True, eq=False)
class ScheduleStudy:
    """Tables of several schedules under the same seeds and steps."""

    #: The paper's columns for the related-rare probes, with sup |dα/dp| and ∫(1 − α).
    summary: pl.DataFrame
    #: How much of each measure's variance ∫(1 − α) explains alone.
    explained: pl.DataFrame
    #: ‖z_T − z_0 − b‖ by stratum.
    endpoint: pl.DataFrame
    #: The curves of each schedule's first seed.
    trajectories: dict[str, Trajectory]


def schedule_study(
    train: Cohort,
    valid: Cohort,
    probes: ProbeSet,
    names: Sequence[str],
    seeds: Sequence[int] = (1,),
    changes: dict[str, Any] | None = None,
    looks: int = LOOKS,
) -> ScheduleStudy:
    """Fit every schedule with every seed and compare what the related-rare probes gained."""
    related = probes.of_kind(ProbeKind.RELATED_RARE)
    groups = probes.context[related]
    rows: list[dict[str, Any]] = []
    endpoints: list[pl.DataFrame] = []
    kept: dict[str, Trajectory] = {}
    for name in names:
        for seed in seeds:
            say(f"schedule {name}, fit seed {seed}")
            run = probed_fit(
                train, valid, probes, changes={**(changes or {}), "schedule": name, "seed": seed}, looks=looks
            )
            measures = {key: values[related].tolist() for key, values in run.trajectory.measures().items()}
            rows.append({"schedule": name, "seed": seed, **measures})
            endpoints.append(endpoint_table(run.trajectory, probes.strata, seed))
            kept.setdefault(name, run.trajectory)
    summary = []
    for name in names:
        mine = [row for row in rows if row["schedule"] == name]
        about = {
            "schedule": name,
            "steepest": steepest(schedule(name)),
            "free_share": free_share(schedule(name)),
            "fit_seeds": len(mine),
        }
        for measure in MEASURES:
            # The mean over seeds of each probe first: seeds are not more contexts.
            values = pl.DataFrame({str(i): row[measure] for i, row in enumerate(mine)}).mean_horizontal().to_numpy()
            summary.append({**about, "measure": measure, **estimate(values, groups)._asdict()})
    return ScheduleStudy(pl.DataFrame(summary), explained_table(rows, MEASURES), pl.concat(endpoints), kept)
