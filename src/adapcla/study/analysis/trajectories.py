"""Bias-free log-probabilities along training: recorded by an observer, summarised as the paper does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import nn

from adapcla.errors import UsageError
from adapcla.generation.generator import Generator
from adapcla.generation.model import scaffold_bias, seen_records
from adapcla.models.base import Moment
from adapcla.scaffold import schedule
from adapcla.study.analysis.histories import true_next_visit
from adapcla.study.analysis.probes import ProbeKind, ProbeSet
from adapcla.study.analysis.statistics import estimate, group_means, paired
from adapcla.training.settings import Settings

#: Looks of a probe: the weights before any step, then a hundred checkpoints.
LOOKS = 101
#: What a true probability of 0 is written as, so that its logarithm can be averaged.
IMPOSSIBLE = 1e-6
#: The strata whose mean log-probability is followed over all contexts.
STRATA = ("tail", "mid", "head")
MEASURES = ("final_gain", "auc", "normalised_auc", "trapezoid_gain", "mean_gain")
_PAIRS = (
    (ProbeKind.RELATED_RARE, ProbeKind.UNRELATED_RARE),
    (ProbeKind.RELATED_RARE, ProbeKind.WRONG),
    (ProbeKind.UNRELATED_RARE, ProbeKind.WRONG),
)


def require_one_shot(settings: Settings) -> None:
    """Raise unless the network gives the logits of all codes at once, so that log p needs no drawing."""
    if not settings.architecture.one_shot:
        raise UsageError(
            f"{settings.method} has no one-shot logit for each code, so that its log p cannot be probed\n"
            "to do: probe a method with the independent head (adapcla, static-pcla, lstm)"
        )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What was seen along one training run; every log p is without any scaffold."""

    schedule: str
    steps: NDArray[np.int64]  # (looks,)
    progress: NDArray[np.float64]  # (looks,)
    weight: NDArray[np.float64]  # (looks,) α
    log_p: NDArray[np.float64]  # (looks, probes)
    oracle: NDArray[np.float64]  # (probes,) θ0 with the scaffold really applied
    strata: dict[str, NDArray[np.float64]]  # (looks,) mean log p of a stratum over contexts and codes
    code_log_p: NDArray[np.float32]  # (looks, codes) mean log p of each code over the contexts
    first_logits: NDArray[np.float32]  # (contexts, codes)
    last_logits: NDArray[np.float32]  # (contexts, codes)
    bias: NDArray[np.float64]  # (codes,) the scaffold of the run
    #: (probes,) true log p at the probed visit, where the world is known.
    truth: NDArray[np.float64] | None = None

    def measures(self) -> dict[str, NDArray[np.float64]]:
        """The summaries of each probe, by the names of `MEASURES`."""
        return {
            "final_gain": final_gain(self.log_p),
            "auc": auc(self.log_p),
            "normalised_auc": normalised_auc(self.log_p),
            "trapezoid_gain": trapezoid_gain(self.log_p, self.progress),
            "mean_gain": mean_gain(self.log_p),
        }


class ProbeObserver:
    """Looks at the probes along training; give it to `fit(observers=…)`."""

    def __init__(self, generator: Generator, probes: ProbeSet, looks: int = LOOKS) -> None:
        require_one_shot(generator.settings)
        self.generator, self.probes, self.looks = generator, probes, looks
        records = seen_records(generator.settings, probes.histories)
        self._batch = records.batch(np.arange(probes.n_contexts))
        self._at = torch.from_numpy(probes.context), torch.from_numpy(probes.code)
        self._seen: list[dict[str, Any]] = []
        self._first = self._last = torch.zeros(0)

    @torch.no_grad()
    def look(self, modules: nn.Module, moment: Moment) -> None:
        """Record the log-probabilities of this moment."""
        logits = modules.next_logits(self._batch)  # type: ignore[operator]
        log_p = nn.functional.logsigmoid(logits.double())  # (contexts, codes)
        if not self._seen:
            self._first = logits.clone()
        self._last = logits
        means = log_p.mean(0).numpy()
        strata = self.probes.strata
        self._seen.append(
            {
                "step": moment.step,
                "progress": min(1.0, moment.progress),
                "log_p": log_p[self._at].numpy(),
                "codes": means.astype(np.float32),
                **{name: float(means[getattr(strata, name)].mean()) for name in STRATA},
            }
        )

    def trajectory(self) -> Trajectory:
        """What was seen."""
        if not self._seen:
            raise UsageError("no training run has been observed yet\nto do: fit the generator with this observer")
        name = self.generator.settings.schedule
        progress = np.array([seen["progress"] for seen in self._seen])
        bias = scaffold_bias(self.generator.settings, self.generator.prevalence_).double()
        lifted = nn.functional.logsigmoid(self._first.double() + bias)
        true = true_next_visit(self.probes.histories)
        at = self.probes.context, self.probes.code
        return Trajectory(
            schedule=name,
            steps=np.array([seen["step"] for seen in self._seen], dtype=np.int64),
            progress=progress,
            weight=np.array([schedule(name).weight(p) for p in progress]),
            log_p=np.stack([seen["log_p"] for seen in self._seen]),
            oracle=lifted[self._at].numpy(),
            strata={name: np.array([seen[name] for seen in self._seen]) for name in STRATA},
            code_log_p=np.stack([seen["codes"] for seen in self._seen]),
            first_logits=self._first.numpy(),
            last_logits=self._last.numpy(),
            bias=bias.numpy(),
            truth=None if true is None else np.log(np.maximum(true[at], IMPOSSIBLE)),
        )


# ---- summaries of one trajectory ----------------------------------------------------------------------------
def final_gain(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p at the end less log p at θ0, for each column.

    >>> final_gain(np.array([[-3.0], [-1.0], [-2.0]])).tolist()
    [1.0]
    """
    return log_p[-1] - log_p[0]


def auc(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's AUC: Σ over checkpoints t ≥ 1 of max(0, log p_t − log p_0).

    >>> auc(np.array([[-3.0], [-1.0], [-2.0], [-4.0]])).tolist()
    [3.0]
    """
    return np.maximum(0.0, log_p[1:] - log_p[0]).sum(axis=0)


def normalised_auc(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's normalised AUC: AUC / ((T − 1) · the largest gain), T checkpoints after θ0; 0 without a gain.

    >>> normalised_auc(np.array([[-3.0], [-1.0], [-2.0], [-4.0]])).tolist()
    [0.75]
    """
    largest = np.maximum(0.0, log_p[1:] - log_p[0]).max(axis=0)
    return np.divide(auc(log_p), max(len(log_p) - 2, 1) * largest, out=np.zeros_like(largest), where=largest > 0)


def trapezoid_gain(log_p: NDArray[np.float64], progress: NDArray[np.float64]) -> NDArray[np.float64]:
    """The area under the gain over progress by the trapezoid rule: a mean gain, whatever the number of checkpoints.

    >>> trapezoid_gain(np.array([[-3.0], [-1.0]]), np.array([0.0, 1.0])).tolist()
    [1.0]
    """
    gain = np.maximum(0.0, log_p - log_p[0])
    return np.trapezoid(gain, progress, axis=0)


def mean_gain(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of log p_t − log p_0 over the checkpoints, with losses counted as negative gains.

    The paper's AUC drops losses, and under a scaffold that starts at full weight the intrinsic log p of a rare code
    falls at first: this number shows what the AUC hides.

    >>> mean_gain(np.array([[-3.0], [-1.0], [-4.0]])).tolist()
    [0.5]
    """
    return (log_p[1:] - log_p[0]).mean(axis=0)


# ---- tables -------------------------------------------------------------------------------------------------
def summary_table(probes: ProbeSet, trajectory: Trajectory, contexts: tuple[int, ...], seed: int = 1) -> pl.DataFrame:
    """Mean, spread and interval of each measure, by kind and number of contexts."""
    measures = trajectory.measures()
    rows = []
    for n in contexts:
        inside = probes.first(n)
        for kind in ProbeKind:
            chosen = np.intersect1d(inside, probes.of_kind(kind))
            groups = probes.context[chosen]
            for name, values in measures.items():
                interval = estimate(values[chosen], groups, seed)
                rows.append(
                    {
                        "contexts_asked": n,
                        "contexts": len(np.unique(groups)),
                        "kind": kind.value,
                        "measure": name,
                        **interval._asdict(),
                    }
                )
    return pl.DataFrame(rows)


def separation_table(
    probes: ProbeSet, trajectory: Trajectory, contexts: tuple[int, ...], seed: int = 1
) -> pl.DataFrame:
    """Paired comparisons of the kinds over context means: difference, interval, Wilcoxon's p and n."""
    measures = trajectory.measures()
    rows = []
    for n in contexts:
        for one, two in _PAIRS:
            first, second = (np.intersect1d(probes.first(n), probes.of_kind(kind)) for kind in (one, two))
            shared = np.intersect1d(probes.context[first], probes.context[second])
            for name in MEASURES:
                sides = []
                for chosen in (first, second):
                    kept = chosen[np.isin(probes.context[chosen], shared)]
                    sides.append(group_means(measures[name][kept], probes.context[kept]))
                interval = paired(sides[0], sides[1], seed)
                rows.append(
                    {
                        "contexts_asked": n,
                        "first": one.value,
                        "second": two.value,
                        "measure": name,
                        **interval._asdict(),
                    }
                )
    return pl.DataFrame(rows)


def curve_table(probes: ProbeSet, trajectory: Trajectory, contexts: int) -> pl.DataFrame:
    """Mean log p of each kind at each look, with the Oracle line and, where known, the truth; strata as kinds too."""
    inside = probes.first(contexts)
    rows = []
    for kind in ProbeKind:
        chosen = np.intersect1d(inside, probes.of_kind(kind))
        if len(chosen) == 0:
            continue
        oracle = float(trajectory.oracle[chosen].mean())
        truth = None if trajectory.truth is None else float(trajectory.truth[chosen].mean())
        rows += _curve(trajectory, kind.value, trajectory.log_p[:, chosen].mean(axis=1), oracle, truth)
    for name, values in trajectory.strata.items():
        rows += _curve(trajectory, f"all {name}", values, None, None)
    return pl.DataFrame(rows, infer_schema_length=None)


def _curve(
    trajectory: Trajectory, kind: str, values: NDArray[np.float64], oracle: float | None, truth: float | None
) -> list[dict[str, Any]]:
    """One row per look."""
    fixed = {"schedule": trajectory.schedule, "kind": kind, "oracle": oracle, "truth": truth}
    moving = zip(trajectory.steps, trajectory.progress, trajectory.weight, values, strict=True)
    return [
        {**fixed, "step": int(s), "progress": float(p), "weight": float(w), "log_p": float(v)} for s, p, w, v in moving
    ]
