"""Schedules, the prior-internalisation bound and two identities of the paper, each compared with its promise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import linalg
from scipy.integrate import solve_ivp
from scipy.special import expit

from adapcla.data import Hierarchy, Prevalence
from adapcla.errors import UsageError
from adapcla.io.simulator import History, World
from adapcla.scaffold import Ramp, Scaffold, Schedule, schedule
from adapcla.scaffold.schedule import Cosine
from adapcla.scaffold.steering import logit
from adapcla.study.analysis.correlation import estimate
from adapcla.study.analysis.probes import MEASURES, ProbeKind, ProbeSet, Trajectory, endpoint_table

# ---- schedules -----------------------------------------------------------------------------------------------
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
    """sup |dα/dp|, which the bound uses.

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


def schedule_tables(
    probes: ProbeSet, trajectories: Mapping[tuple[str, int], Trajectory]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """What the related-rare probes gained under each schedule, from the trajectories by schedule and fit seed.

    Returns:
        The paper's columns for the related-rare probes, with sup |dα/dp| and ∫(1 − α); how much of each measure's
        variance each of these two explains; and ‖z_T − z_0 − b‖ by stratum.
    """
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
    return pl.DataFrame(summary), explained_table(rows, MEASURES), pl.concat(endpoints)


# ---- the bound -----------------------------------------------------------------------------------------------
Array = NDArray[np.float64]
#: Points in time at which the error is read.
POINTS = 201


@dataclass(frozen=True, eq=False)
class ExactSetting:
    """One context of a linear head on frozen features: everything that the theorem uses is known."""

    kernel: Array  # (codes, codes), positive definite
    optimum: Array  # (codes,) z̃*, the log-odds of the conditional distribution
    bias: Array  # (codes,) b
    start: Array  # (codes,) z_0
    #: Length of training in units of gradient flow.
    horizon: float = 1.0

    def __post_init__(self) -> None:
        if np.linalg.eigvalsh(self.kernel)[0] <= 0:
            raise UsageError("the kernel is not positive definite: the bound needs a smallest eigenvalue above 0")

    @property
    def smallest_eigenvalue(self) -> float:
        """λ_min(K)."""
        return float(np.linalg.eigvalsh(self.kernel)[0])

    def norm(self, vectors: Array) -> Array:
        """‖v‖ in the norm of K⁻¹, of one vector or of rows of vectors."""
        factor = linalg.cho_factor(self.kernel, lower=True)
        solved = linalg.cho_solve(factor, np.atleast_2d(vectors).T).T
        return np.sqrt(np.maximum((np.atleast_2d(vectors) * solved).sum(axis=1), 0.0))

    @property
    def bias_norm(self) -> float:
        """The theorem's B: ‖b‖ in the norm of K⁻¹."""
        return float(self.norm(self.bias)[0])

    def first_error(self, schedule: Schedule) -> Array:
        """e_0 = z_0 + α(0) b − z̃*."""
        return self.start + schedule.weight(0.0) * self.bias - self.optimum


@dataclass(frozen=True, eq=False)
class Flow:
    """The error of one setting under one schedule, and the two terms of the bound.

    `radius` is ‖e_τ‖ in the norm of K⁻¹ at each time; a bound is `transient + annealing`.
    """

    setting: ExactSetting
    schedule: Schedule
    time: Array  # (points,)
    error: Array  # (points, codes)
    radius: Array  # (points,)
    #: μ from what can be proved before integrating, and μ from the path that was taken (never smaller).
    certain_curvature: float
    path_curvature: float

    def _rate(self, curvature: float) -> float:
        return curvature * self.setting.smallest_eigenvalue

    @property
    def speed(self) -> float:
        """sup |α̇| in units of time."""
        return steepest(self.schedule) / self.setting.horizon

    def transient(self, curvature: float) -> Array:
        """The first term of the bound at each time: e^(−μ λ_min τ) r_0."""
        return np.exp(-self._rate(curvature) * self.time) * self.radius[0]

    def annealing(self, curvature: float) -> float:
        """The second term: B sup |α̇| / (μ λ_min)."""
        return self.setting.bias_norm * self.speed / self._rate(curvature)

    def bound(self, curvature: float) -> Array:
        """The theorem's bound at each time."""
        return self.transient(curvature) + self.annealing(curvature)

    def sharp_bound(self, curvature: float) -> Array:
        """The bound before its last step: the integral of |α̇| with its exponential memory in place of its supremum."""
        rate, horizon = self._rate(curvature), self.setting.horizon
        out = self.transient(curvature)
        for low, high in _pieces(self.schedule):
            begin, end = low * horizon, np.clip(self.time, low * horizon, high * horizon)
            # |α̇| is at most its largest value on the piece; pieces are short, so that little is given away.
            ends = (abs(slope(self.schedule, edge)) for edge in (low, high))
            steep = max(*ends, _inside(self.schedule, low, high)) / horizon
            out += (
                self.setting.bias_norm
                * steep
                * (_decay(rate, self.time - end) - _decay(rate, self.time - begin))
                / rate
            )
        return out

    @property
    def endpoint_deviation(self) -> float:
        """‖z_T − z_0 − b‖ in the norm of K⁻¹."""
        last, first = self.schedule.weight(1.0), self.schedule.weight(0.0)
        moved = self.error[-1] - self.error[0] + (first - last) * self.setting.bias
        return float(self.setting.norm(moved - self.setting.bias)[0])

    def corollary(self, curvature: float) -> float:
        """The corollary's bound of that deviation; it needs a schedule from 1 to 0."""
        if self.schedule.weight(0.0) != 1.0 or self.schedule.weight(1.0) != 0.0:
            return float("nan")
        shrink = 1.0 + np.exp(-self._rate(curvature) * self.setting.horizon)
        return float(shrink * self.radius[0] + self.annealing(curvature))


def _decay(rate: float, ago: Array) -> Array:
    """e^(−rate · ago), 1 for what lies ahead."""
    return np.exp(-rate * np.maximum(ago, 0.0))


def _pieces(schedule: Schedule, n: int = 64) -> list[tuple[float, float]]:
    """Short stretches of progress on which the schedule is smooth."""
    edges = np.unique(np.concatenate([np.linspace(0, 1, n + 1), corners(schedule)]))
    return list(itertools.pairwise(edges.tolist()))


def _inside(schedule: Schedule, low: float, high: float) -> float:
    """The steepness between two points that lie on one smooth stretch."""
    return abs(schedule.weight(high) - schedule.weight(low)) / (high - low)


def certain_curvature(setting: ExactSetting, schedule: Schedule) -> float:
    """A valid μ, known before the flow is integrated.

    ‖e‖ in the norm of K⁻¹ can grow by B · |α̇| only, so it stays below R = r_0 + B · (the whole way α goes), and then
    |e_c| ≤ R √K_cc for every code. σ' falls with the distance from 0, so its smallest value on that box is at an end.
    """
    edges = np.unique(np.concatenate([np.linspace(0, 1, 1001), corners(schedule)]))
    way = float(np.abs(np.diff([schedule.weight(p) for p in edges])).sum())
    radius = float(setting.norm(setting.first_error(schedule))[0]) + setting.bias_norm * way
    reach = np.abs(setting.optimum) + radius * np.sqrt(np.diag(setting.kernel))
    return float(_curvature(reach).min())


def _curvature(logits: Array) -> Array:
    """σ'(z), computed so that it stays above 0 far out."""
    return expit(logits) * expit(-logits)


def flow(setting: ExactSetting, schedule: Schedule, points: int = POINTS) -> Flow:
    """The error along the flow, integrated piece by piece between the corners of the schedule."""
    if not np.isfinite(steepest(schedule)):
        raise UsageError(f"schedule {schedule.name} jumps: the bound needs one that falls at a finite speed")
    target = expit(setting.optimum)

    def push(progress: float, error: Array, steep: float) -> Array:
        moved = -setting.kernel @ (expit(setting.optimum + error) - target)
        change = slope(schedule, progress) if np.isnan(steep) else steep
        return setting.horizon * moved + change * setting.bias

    def jacobian(progress: float, error: Array, steep: float) -> Array:
        return -setting.horizon * setting.kernel * _curvature(setting.optimum + error)[None, :]

    edges = corners(schedule)
    grid = np.unique(np.concatenate([np.linspace(0, 1, points), edges]))
    times, errors = [0.0], [setting.first_error(schedule)]
    for low, high in itertools.pairwise(edges.tolist()):
        inside = grid[(grid > low) & (grid <= high)]
        # On a straight stretch the slope is that of the stretch, also at its two ends.
        straight = slope(schedule, (low + high) / 2) if isinstance(schedule, Ramp) else np.nan
        solution = solve_ivp(
            push, (low, high), errors[-1], "LSODA", inside, jac=jacobian, args=(straight,), rtol=1e-8, atol=1e-10
        )
        times += inside.tolist()
        errors += list(solution.y.T)
    error = np.stack(errors)
    near = np.minimum(_curvature(setting.optimum), _curvature(setting.optimum + error).min(axis=0))
    return Flow(
        setting,
        schedule,
        np.array(times) * setting.horizon,
        error,
        setting.norm(error),
        certain_curvature(setting, schedule),
        float(near.min()),
    )


def flow_table(flows: Sequence[Flow]) -> pl.DataFrame:
    """One row per flow: the error, what the bound allows, and the share of the bound that the error reaches."""
    rows = []
    for run in flows:
        setting = run.setting
        certain, path = run.certain_curvature, run.path_curvature
        allowed = run.bound(path)
        rows.append(
            {
                "schedule": run.schedule.name,
                "horizon": setting.horizon,
                "codes": len(setting.bias),
                "speed": run.speed,
                "smallest_eigenvalue": setting.smallest_eigenvalue,
                "bias_norm": setting.bias_norm,
                "curvature": path,
                "certain_curvature": certain,
                "first_radius": float(run.radius[0]),
                "last_radius": float(run.radius[-1]),
                "transient_term": float(run.transient(path)[-1]),
                "annealing_term": run.annealing(path),
                "bound": float(allowed[-1]),
                "sharp_bound": float(run.sharp_bound(path)[-1]),
                "certain_bound": float(run.bound(certain)[-1]),
                "tightness": float(run.radius[-1] / allowed[-1]),
                "largest_share_of_bound": float((run.radius / allowed).max()),
                "violated": bool((run.radius > allowed * (1 + 1e-6)).any()),
                "endpoint_deviation": run.endpoint_deviation,
                "corollary": run.corollary(path),
            }
        )
    return pl.DataFrame(rows)


def exact_setting(law: World, n_codes: int = 40, horizon: float = 100.0, group: int = 2) -> ExactSetting:
    """The first visit of one group of simulated patients, under a linear head whose codes share family rows.

    The head gives each code its own row, its family's and its chapter's on a frozen state of length 1, and a bias, so
    that K is 1 for the bias plus 1 for each row that two codes share. It starts at logit π, as the network does.
    """
    chance = law.next_visit(law.newcomers)[group]
    share = law.first_visit
    usable = np.flatnonzero((chance > 0) & (chance < 1) & (share > 0) & (share < 1))
    by_share = usable[np.argsort(share[usable], kind="stable")]
    chosen = by_share[np.linspace(0, len(by_share) - 1, min(n_codes, len(by_share))).round().astype(np.int64)]
    tree = Hierarchy.of(law.vocabulary)
    assert tree is not None  # simulated codes always have families
    levels = [level[chosen][:, None] == level[chosen][None, :] for level in (tree.category, tree.chapter)]
    kernel = 2.0 * np.eye(len(chosen)) + sum(level.astype(np.float64) for level in levels)
    start = logit(share[chosen])
    return ExactSetting(kernel, logit(chance[chosen]), -start, start, horizon)


# ---- identities ----------------------------------------------------------------------------------------------
class Centring(NamedTuple):
    """Where the scaffold puts an untrained network."""

    #: Largest |z_0 + b| over the codes seen in training: 0 if the scaffold centres them.
    off_centre: float
    #: Smallest slope of the sigmoid there: ¼, the largest there is, if they are centred.
    sensitivity: float
    #: Largest slope that any other shift of at least `apart` reaches on any code.
    sensitivity_elsewhere: float
    n_codes: int


def sensitivity(logits: Array) -> Array:
    """The slope of the sigmoid: how much a probability moves with its logit, and the curvature of the loss.

    >>> sensitivity(np.array([0.0])).tolist()
    [0.25]
    """
    return expit(logits) * expit(-logits)


def centring(prevalence: Prevalence, apart: float = 0.1, epsilon: float = 1e-6) -> Centring:
    """The check that the untempered scaffold, and no other shift, puts logit π̂ where the sigmoid is steepest.

    >>> centring(Prevalence.of({"A": 0.5, "B": 0.001})).sensitivity
    0.25
    """
    scaffold = Scaffold(prevalence, 1.0, epsilon)
    seen = np.nan_to_num(prevalence.share) > 0
    at = (scaffold.initial_logits + scaffold.bias)[seen]
    elsewhere = np.concatenate([at + apart, at - apart])
    return Centring(
        float(np.abs(at).max()), float(sensitivity(at).min()), float(sensitivity(elsewhere).max()), int(seen.sum())
    )


def prior_shift_gap(source: World, target: World, history: History) -> float:
    """The largest error of logit P_T(c | x) − logit P_S(c | x) = Δb(c) in two simulated populations.

    Over every history given and every code whose odds move by the same factor everywhere: codes of moved syndromes,
    which move by an amount that depends on the history, are left out, and so are codes that cannot occur.
    """
    before, after = source.next_visit(history), target.next_visit(history)
    possible = (before > 0) & (before < 1) & ~target.moved_members[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.abs(logit(after) - logit(before) - target.code_shift[None, :])
    return float(gap[possible].max())
