"""Whether the kernel before training predicts which probes gain: similarity with the context and λ_min."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import nn

from adapcla.generation.generator import Generator
from adapcla.generation.model import seen_records
from adapcla.models.base import Moment
from adapcla.study.analysis.kernel import label_kernels
from adapcla.study.analysis.probes import ProbeKind, ProbeSet
from adapcla.study.analysis.statistics import Correlation, group_means, spearman
from adapcla.study.analysis.trajectories import Trajectory, require_one_shot

#: Parameter groups that are looked at: everything, and what codes share.
GROUPS = ("all", "shared")
#: Codes of a history that stand for it; longer histories are cut to their most recent codes.
BUNDLE = 24
#: A p below this speaks, if there are at least so many cases.
SIGNIFICANT, FEWEST = 0.05, 10


class ContextKernel(NamedTuple):
    """What one context's kernel says, for one group of parameters."""

    context: int
    group: str
    #: Mean cosine similarity with the codes of the history, one for each probe of the context.
    similarity: NDArray[np.float64]
    #: λ_min over the related-rare codes of the context; NaN where there is but one.
    smallest_eigenvalue: float


class KernelObserver:
    """Computes the kernels of every probed context before the first step."""

    #: One look: θ0.
    looks = 1

    def __init__(self, generator: Generator, probes: ProbeSet, groups: Sequence[str] = GROUPS) -> None:
        require_one_shot(generator.settings)
        self.probes, self.groups = probes, tuple(groups)
        self._records = seen_records(generator.settings, probes.histories)
        self.kernels: list[ContextKernel] = []

    def look(self, modules: nn.Module, moment: Moment) -> None:
        """Compute the kernels; later looks of a resumed run are left out."""
        if moment.step:
            return
        history = self.probes.histories
        for context in range(self.probes.n_contexts):
            mine = np.flatnonzero(self.probes.context == context)
            probed = self.probes.code[mine]
            bundle = _recent_codes(history.subset([context]).codes)
            related = self.probes.code[np.intersect1d(mine, self.probes.of_kind(ProbeKind.RELATED_RARE))]
            batch = self._records.batch(np.array([context]))
            codes = np.unique(np.concatenate([probed, bundle]))
            for group, kernel in label_kernels(modules, batch, codes, self.groups).items():
                least = kernel.among(related).smallest_eigenvalue if len(related) > 1 else np.nan
                similar = np.array([kernel.similarity(int(code), bundle) for code in probed])
                self.kernels.append(ContextKernel(context, group, similar, least))


def _recent_codes(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """The codes of a history; where there are too many, those of the latest entries.

    >>> _recent_codes(np.array([3, 1, 3], dtype=np.int32)).tolist()
    [1, 3]
    """
    return np.unique(np.asarray(codes, dtype=np.int64)[-BUNDLE:])


def similarity_table(probes: ProbeSet, trajectory: Trajectory, kernels: Sequence[ContextKernel]) -> pl.DataFrame:
    """One row per probe and parameter group: similarity before training, and the final gain."""
    gain = trajectory.measures()["final_gain"]
    kinds = [probe.kind.value for probe in probes.probes]
    rows: list[dict[str, Any]] = []
    for kernel in kernels:
        mine = np.flatnonzero(probes.context == kernel.context)
        rows += [
            {
                "group": kernel.group,
                "context": kernel.context,
                "probe": int(probe),
                "kind": kinds[probe],
                "similarity": float(similar),
                "final_gain": float(gain[probe]),
            }
            for probe, similar in zip(mine, kernel.similarity, strict=True)
        ]
    return pl.DataFrame(rows)


def eigenvalue_table(probes: ProbeSet, trajectory: Trajectory, kernels: Sequence[ContextKernel]) -> pl.DataFrame:
    """One row per context with at least two related-rare codes and parameter group: λ_min beside what was gained."""
    measures = trajectory.measures()
    related = probes.of_kind(ProbeKind.RELATED_RARE)
    contexts = np.unique(probes.context[related])
    means = {name: group_means(measures[name][related], probes.context[related]) for name in measures}
    where = {int(context): i for i, context in enumerate(contexts)}
    rows = [
        {
            "group": kernel.group,
            "context": kernel.context,
            "smallest_eigenvalue": kernel.smallest_eigenvalue,
            **{name: float(values[where[kernel.context]]) for name, values in means.items()},
        }
        for kernel in kernels
        if np.isfinite(kernel.smallest_eigenvalue)
    ]
    schema = dict.fromkeys(["smallest_eigenvalue", *means], pl.Float64)
    return pl.DataFrame(rows, schema={"group": pl.String, "context": pl.Int64, **schema})


def correlation_table(
    similarities: pl.DataFrame, eigenvalues: pl.DataFrame, contexts: Sequence[int], seed: int = 1
) -> pl.DataFrame:
    """Spearman's correlations with p, interval and n, for each number of contexts, and a verdict in words."""
    rows = []
    questions: list[tuple[str, str, pl.DataFrame, str | None]] = [("similarity", "final_gain", similarities, None)]
    questions += [("similarity", "final_gain", similarities, kind.value) for kind in ProbeKind]
    questions += [("smallest_eigenvalue", measure, eigenvalues, None) for measure in ("auc", "mean_gain", "final_gain")]
    for n in contexts:
        for group in similarities["group"].unique(maintain_order=True):
            for x, y, table, kind in questions:
                part = table.filter((pl.col("group") == group) & (pl.col("context") < n))
                if kind is not None:
                    part = part.filter(pl.col("kind") == kind)
                correlation = spearman(part[x].to_numpy(), part[y].to_numpy(), seed, part["context"].to_numpy())
                spread = _spread(part[x].to_numpy())
                rows.append(
                    {
                        "contexts": n,
                        "group": group,
                        "x": x,
                        "y": y,
                        "kind": kind or "all",
                        **correlation._asdict(),
                        "spread_of_x": spread,
                        "verdict": verdict(correlation),
                    }
                )
    return pl.DataFrame(rows)


def _spread(values: NDArray[np.float64]) -> float:
    """The standard deviation divided by the mean; near 0, a predictor is constant and can predict nothing."""
    return float(values.std() / abs(values.mean())) if len(values) and values.mean() != 0 else float("nan")


def verdict(correlation: Correlation) -> str:
    """A correlation in words; it counts as shown only where p and the interval over contexts agree.

    >>> verdict(Correlation(0.3, 0.11, -0.1, 0.6, 30)), verdict(Correlation(0.5, 0.001, 0.3, 0.6, 100))
    ('not shown', 'as the theory says')
    >>> verdict(Correlation(1.0, 0.0, 1.0, 1.0, 4)), verdict(spearman(np.ones(30), np.arange(30.0)))
    ('too few to say', 'cannot be asked')
    """
    if correlation.n < FEWEST:
        return "too few to say"
    if np.isnan(correlation.rho):
        return "cannot be asked"
    if correlation.p >= SIGNIFICANT or correlation.low <= 0 <= correlation.high:
        return "not shown"
    return "as the theory says" if correlation.rho > 0 else "contrary to the theory"
