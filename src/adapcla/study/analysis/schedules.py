"""What a schedule does to the probes, and how much of that is explained by the time without a scaffold alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adapcla.scaffold import Ramp, Schedule, schedule
from adapcla.scaffold.schedule import Cosine
from adapcla.study.analysis.endpoint import endpoint_table
from adapcla.study.analysis.probes import ProbeKind, ProbeSet
from adapcla.study.analysis.statistics import estimate
from adapcla.study.analysis.trajectories import MEASURES, Trajectory

#: The paper's schedules, from the latest to the earliest release.
PAPER = ("slow", "base", "cosine", "fast")
#: Ramps of one onset and different slopes; the paper's three ramps share one slope, so that they cannot tell.
WIDTHS = ("ramp:0.3,0.4", "ramp:0.3,0.5", "base", "ramp:0.3,0.9", "ramp:0.3,1.0")
FAMILY = (*PAPER, *(name for name in WIDTHS if name not in PAPER))
_FINE = 20_000


def corners(schedule: Schedule) -> NDArray[np.float64]:
    """The progresses between which a schedule is smooth, from 0 to 1.

    >>> corners(schedule("base")).tolist(), corners(schedule("cosine")).tolist()
    ([0.0, 0.3, 0.7, 1.0], [0.0, 1.0])
    """
    inner = [schedule.hold, schedule.release] if isinstance(schedule, Ramp) else []
    return np.unique(np.array([0.0, *inner, 1.0]))


def slope(schedule: Schedule, progress: float) -> float:
    """dα/dp at a progress.

    >>> round(slope(schedule("base"), 0.5), 6), round(slope(schedule("cosine"), 0.5), 4)
    (-2.5, -1.5708)
    """
    if isinstance(schedule, Ramp):
        return -1.0 / (schedule.release - schedule.hold) if schedule.hold < progress < schedule.release else 0.0
    if isinstance(schedule, Cosine):
        return float(-0.5 * np.pi * np.sin(np.pi * progress))
    step = 1e-5
    low, high = max(0.0, progress - step), min(1.0, progress + step)
    return (schedule.weight(high) - schedule.weight(low)) / (high - low)


def steepest(schedule: Schedule) -> float:
    """sup |dα/dp|, what the bound speaks of.

    >>> round(steepest(schedule("base")), 6), round(steepest(schedule("cosine")), 4), steepest(schedule("none"))
    (2.5, 1.5708, 0.0)
    >>> steepest(schedule("ramp:0.5,0.5"))
    inf
    """
    if isinstance(schedule, Ramp):
        return float("inf") if schedule.hold == schedule.release else 1.0 / (schedule.release - schedule.hold)
    return max(abs(slope(schedule, p)) for p in np.linspace(0, 1, 1001).tolist())


def free_share(schedule: Schedule) -> float:
    """∫(1 − α): the share of training without a scaffold.

    >>> round(free_share(schedule("base")), 4), round(free_share(schedule("cosine")), 4)
    (0.5, 0.5)
    """
    middle = (np.arange(_FINE) + 0.5) / _FINE
    return float(np.mean([1.0 - schedule.weight(p) for p in middle.tolist()]))


def explained_share(values: NDArray[np.float64], by: NDArray[np.float64]) -> float:
    """The share of the variance of `values` that a straight line in `by` explains; NaN if either does not vary.

    >>> explained_share(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    1.0
    """
    if len(values) < 3 or np.ptp(values) == 0 or np.ptp(by) == 0:
        return float("nan")
    return float(round(np.corrcoef(values, by)[0, 1] ** 2, 12))


def explained_table(rows: Sequence[dict[str, Any]], measures: Sequence[str]) -> pl.DataFrame:
    """How much of each measure's variance ∫(1 − α) explains alone, and how much sup |dα/dp| does.

    Each row of `rows` holds a schedule, a fit seed and the measures of its probes as equally long lists. `between` is
    over the means of schedules and seeds; `within` is over all probes after each probe's own mean is taken away.

    >>> rows = [{"schedule": s, "seed": 1, "auc": [free_share(schedule(s)) + k for k in (0.0, 5.0)]} for s in PAPER]
    >>> table = explained_table(rows, ["auc"])
    >>> table.filter(pl.col("by") == "free_share")["between"].to_list()
    [1.0]
    """
    out = []
    predictors = {
        "free_share": np.array([free_share(schedule(row["schedule"])) for row in rows]),
        "steepest": np.array([steepest(schedule(row["schedule"])) for row in rows]),
    }
    for measure in measures:
        table = np.array([row[measure] for row in rows], dtype=np.float64)  # (runs, probes)
        centred = table - table.mean(axis=0)
        for name, by in predictors.items():
            out.append(
                {
                    "measure": measure,
                    "by": name,
                    "between": explained_share(table.mean(axis=1), by),
                    "within": explained_share(centred.ravel(), np.repeat(by, table.shape[1])),
                    "runs": len(rows),
                    "probes": table.shape[1],
                }
            )
    return pl.DataFrame(out)


class ScheduleTables(NamedTuple):
    """Tables of several schedules under the same seeds and steps."""

    #: The paper's columns for the related-rare probes, with sup |dα/dp| and ∫(1 − α).
    summary: pl.DataFrame
    #: How much of each measure's variance ∫(1 − α) explains alone.
    explained: pl.DataFrame
    #: ‖z_T − z_0 − b‖ by stratum.
    endpoint: pl.DataFrame


def schedule_tables(probes: ProbeSet, trajectories: Mapping[tuple[str, int], Trajectory]) -> ScheduleTables:
    """What the related-rare probes gained under each schedule, from the trajectories by schedule and fit seed."""
    related = probes.of_kind(ProbeKind.RELATED_RARE)
    groups = probes.context[related]
    rows: list[dict[str, Any]] = []
    for (name, seed), trajectory in trajectories.items():
        measures = {key: values[related].tolist() for key, values in trajectory.measures().items()}
        rows.append({"schedule": name, "seed": seed, **measures})
    summary = []
    for name in dict.fromkeys(row["schedule"] for row in rows):
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
    endpoints = [endpoint_table(path, probes.strata, seed) for (_, seed), path in trajectories.items()]
    return ScheduleTables(pl.DataFrame(summary), explained_table(rows, MEASURES), pl.concat(endpoints))
