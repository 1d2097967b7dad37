"""The label-wise empirical neural tangent kernel of next-visit logits (the paper's K), and what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vjp

from adapcla.errors import UsageError
from adapcla.generation.model import seen_records
from adapcla.models.base import Moment
from adapcla.models.batch import Batch, CodeOrder
from adapcla.study.analysis.correlation import Correlation, group_means, spearman
from adapcla.study.analysis.probes import ProbeKind, ProbeSet, Trajectory, require_one_shot

if TYPE_CHECKING:
    from adapcla.generation.generator import Generator

# ---- the kernel ----------------------------------------------------------------------------------------------
#: Named groups of parameters, by the beginning of their names. `shared` is all but the output rows and biases that
#: belong to single codes: through those alone no code can move another.
GROUPS: dict[str, tuple[str, ...]] = {
    "all": ("",),
    "input": ("table.", "embedding."),
    "trunk": ("trunk.",),
    "output": ("head.",),
    "shared": ("table.", "embedding.", "trunk.", "head.table.parts."),
}
#: Gradient entries held at once: 512 MB in single precision.
HELD = 1 << 27
Parameters = dict[str, Tensor]


class NextLogits(nn.Module):
    """The logits (codes,) of some codes at the visit after the history of one patient, as a function of weights."""

    def __init__(self, network: nn.Module, batch: Batch, codes: NDArray[np.int64]) -> None:
        super().__init__()
        if batch.n_patients != 1:
            raise UsageError(f"{batch.n_patients} patients: expected one context")
        self.network = network
        order: CodeOrder = network.order  # type: ignore[assignment]
        self.batch = replace(batch, codes=torch.from_numpy(order.encode(batch.codes.numpy())))
        self.positions = torch.from_numpy(order.encode(codes))

    def forward(self) -> Tensor:
        """Logits (codes,) in the order of `codes`."""
        logits: Tensor = self.network.next_logits(self.batch)  # type: ignore[operator]
        return logits[0, self.positions]


def parameters_of(module: nn.Module, group: str = "all") -> Parameters:
    """The parameters of a named group, as they are used by `NextLogits`."""
    if group not in GROUPS:
        raise UsageError(f"parameter group {group!r}: expected one of {', '.join(GROUPS)}")
    beginnings = tuple(f"network.{beginning}" for beginning in GROUPS[group])
    return {name: p.detach() for name, p in module.named_parameters() if name.startswith(beginnings)}


@dataclass(frozen=True, eq=False)
class LabelKernel:
    """K over some codes: inner products of the gradients of their logits.

    >>> kernel = LabelKernel(np.array([4, 7]), np.array([[4.0, 1.0], [1.0, 1.0]]))
    >>> kernel.cosine.tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    codes: NDArray[np.int64]
    matrix: NDArray[np.float64]

    @property
    def cosine(self) -> NDArray[np.float64]:
        """Cosine similarities of the gradients."""
        size = np.sqrt(np.maximum(np.diag(self.matrix), 1e-300))
        return self.matrix / (size[:, None] * size[None, :])

    def among(self, codes: NDArray[np.int64]) -> LabelKernel:
        """The kernel restricted to some of its codes."""
        where = np.array([int(np.flatnonzero(self.codes == code)[0]) for code in codes], dtype=np.int64)
        return LabelKernel(self.codes[where], self.matrix[np.ix_(where, where)])

    @property
    def smallest_eigenvalue(self) -> float:
        """λ_min(K).

        >>> LabelKernel(np.array([0, 1]), np.diag([3.0, 2.0])).smallest_eigenvalue
        2.0
        """
        return float(np.linalg.eigvalsh(self.matrix)[0])

    def similarity(self, code: int, bundle: NDArray[np.int64]) -> float:
        """Mean cosine similarity of a code with the codes of a bundle, itself left out.

        >>> LabelKernel(np.array([4, 7]), np.array([[4.0, 1.0], [1.0, 1.0]])).similarity(4, np.array([4, 7]))
        0.5
        """
        others = np.isin(self.codes, bundle[bundle != code])
        return float(self.cosine[np.flatnonzero(self.codes == code)[0], others].mean()) if others.any() else np.nan


def label_kernel(network: nn.Module, batch: Batch, codes: NDArray[np.int64], group: str = "all") -> LabelKernel:
    """K of one context over some codes, by pulling back one code at a time."""
    return label_kernels(network, batch, codes, (group,))[group]


def label_kernels(
    network: nn.Module, batch: Batch, codes: NDArray[np.int64], groups: Sequence[str] = ("all", "shared")
) -> dict[str, LabelKernel]:
    """K of one context for several groups of parameters from one set of gradients.

    Gradients are held for a chunk of codes at a time; a wider kernel is filled block by block.
    """
    function = NextLogits(network, batch, np.asarray(codes, dtype=np.int64))
    names_of_group = {group: set(parameters_of(function, group)) for group in groups}
    fixed = parameters_of(function)
    parameters = {name: fixed[name] for name in fixed if any(name in names for names in names_of_group.values())}
    logits, pull = vjp(lambda weights: functional_call(function, {**fixed, **weights}, ()), parameters)[:2]
    size = max(1, sum(p.numel() for p in parameters.values()))
    step = max(1, HELD // (2 * size))
    n = len(codes)
    chunks = [range(low, min(low + step, n)) for low in range(0, n, step)]
    out = {group: np.zeros((n, n)) for group in groups}
    for i, rows in enumerate(chunks):
        one = _pull_back(pull, rows, logits)
        for columns in chunks[i:]:
            two = one if columns is rows else _pull_back(pull, columns, logits)
            for group, names in names_of_group.items():
                block = sum((one[name] @ two[name].t()).double().numpy() for name in sorted(names))
                out[group][rows.start : rows.stop, columns.start : columns.stop] = block
                out[group][columns.start : columns.stop, rows.start : rows.stop] = np.transpose(block)
    return {group: LabelKernel(np.asarray(codes), matrix) for group, matrix in out.items()}


def _pull_back(pull: Callable[..., Any], rows: range, logits: Tensor) -> dict[str, Tensor]:
    """Flat gradients (rows, size) of the logits in `rows`, by parameter."""
    parts: dict[str, list[Tensor]] = {}
    for row in rows:
        unit = torch.zeros_like(logits)
        unit[row] = 1.0
        (gradients,) = pull(unit)
        for name, gradient in gradients.items():
            parts.setdefault(name, []).append(gradient.detach().reshape(-1))
    return {name: torch.stack(pieces) for name, pieces in parts.items()}


# ---- what it predicts ----------------------------------------------------------------------------------------
#: Parameter groups that are looked at: everything, and what codes share.
KERNEL_GROUPS = ("all", "shared")
#: Codes of a history that stand for it; longer histories are cut to their most recent codes.
BUNDLE = 24
#: A p below this counts, if there are at least so many cases.
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

    def __init__(self, generator: Generator, probes: ProbeSet, groups: Sequence[str] = KERNEL_GROUPS) -> None:
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
    ('too few to say', 'not defined')
    """
    if correlation.n < FEWEST:
        return "too few to say"
    if np.isnan(correlation.rho):
        return "not defined"
    if correlation.p >= SIGNIFICANT or correlation.low <= 0 <= correlation.high:
        return "not shown"
    return "as the theory says" if correlation.rho > 0 else "contrary to the theory"
