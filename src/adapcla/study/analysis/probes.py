"""Micro-probes along training: held-out histories, the choice of probes, what is recorded and how it is summarised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from adapcla.data import Cohort, Strata
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.generation.model import scaffold_bias, seen_records
from adapcla.io import simulator
from adapcla.models.base import Moment, Network
from adapcla.scaffold import schedule
from adapcla.seeds import random_stream
from adapcla.study.analysis.correlation import estimate, group_means, paired_difference
from adapcla.training.settings import Settings

if TYPE_CHECKING:
    from adapcla.generation.generator import Generator


# ---- held-out histories --------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class NextVisits:
    """Patients with at least two visits: all visits but the last, and the last."""

    histories: Cohort
    #: Patients × codes, 1 where the last visit holds the code.
    following: sparse.csr_matrix
    #: The position of each patient in the cohort it was cut from.
    patients: NDArray[np.int64]

    @property
    def history_codes(self) -> sparse.csr_matrix:
        """Patients × codes, 1 where any visit of the history holds the code."""
        matrix = self.histories.patient_matrix()
        matrix.data = np.ones_like(matrix.data)
        return matrix

    def some(self, rows: NDArray[np.int64]) -> NextVisits:
        """Some of the patients."""
        return NextVisits(self.histories.subset(rows), self.following[rows], self.patients[rows])


def next_visits(cohort: Cohort, longest: int | None = None) -> NextVisits:
    """Every patient with at least two visits (and a history of at most `longest`), cut before the last one.

    >>> cut = next_visits(Cohort.of([[["A"], ["B"], ["A", "C"]], [["C"]]]))
    >>> list(cut.histories.patients()), cut.following.toarray().tolist(), cut.patients.tolist()
    ([[['A'], ['B']]], [[1.0, 0.0, 1.0]], [0])
    """
    lengths = cohort.visits_per_patient
    fits = lengths >= 2 if longest is None else (lengths >= 2) & (lengths <= longest + 1)
    chosen = np.flatnonzero(fits)
    part = cohort.subset(chosen)
    return NextVisits(part.without_last_visits(), part.matrix()[part.last_visits], chosen)


def true_next_visit(histories: Cohort, other_world: bool = False) -> NDArray[np.float64] | None:
    """The true chance of each code at the next visit (patients × codes); None unless the patients are simulated.

    With `other_world` it is the chance in another simulated population with the same codes, which a generator that
    learned from these patients cannot know.

    >>> cut = next_visits(simulator.simulate(patients=30, codes=60, seed=1))
    >>> true_next_visit(cut.histories).shape == (cut.histories.n_patients, 60)
    True
    >>> true_next_visit(Cohort.of([[["A"]]])) is None
    True
    """
    law = simulator.world_of(histories, other_world)
    if law is None:
        return None
    return law.next_visit(law.after_visits(histories).rows(histories.last_visits))


# ---- choice of probes ----------------------------------------------------------------------------------------
#: Contexts of the small and of the large probe set.
CONTEXTS = (30, 100)
#: Held-out visits in which a related code stands with a code of the context, at least.
SUPPORT = 2
#: Probes of each kind for one context.
PER_CONTEXT = 3
#: Histories looked at, at most: in a vocabulary of very common codes few have a wrong code.
MOST_LOOKED_AT = 4000


class ProbeKind(StrEnum):
    """What a probe code has to do with its context."""

    RELATED_RARE = "related_rare"
    UNRELATED_RARE = "unrelated_rare"
    WRONG = "wrong"


class Probe(NamedTuple):
    """One code at one context."""

    context: int
    code: int
    kind: ProbeKind
    #: Largest held-out lift with a code of the context, the context's own patient left out.
    lift: float
    #: Held-out visits behind that lift.
    support: int


@dataclass(frozen=True, eq=False)
class ProbeSet:
    """Contexts and the codes that are probed at each."""

    probes: tuple[Probe, ...]
    strata: Strata
    n_contexts: int
    #: One patient per context: the visits before the probed one. Never saved: they are single patients.
    contexts: Cohort | None = None

    @property
    def histories(self) -> Cohort:
        """The contexts; an error for a probe set that was read back."""
        if self.contexts is None:
            raise UsageError("a saved probe set has no patients in it\nto do: choose the probes again from the cohort")
        return self.contexts

    @property
    def context(self) -> NDArray[np.int64]:
        """The context of each probe."""
        return np.array([probe.context for probe in self.probes], dtype=np.int64)

    @property
    def code(self) -> NDArray[np.int64]:
        """The code of each probe."""
        return np.array([probe.code for probe in self.probes], dtype=np.int64)

    def of_kind(self, kind: ProbeKind) -> NDArray[np.int64]:
        """Positions of the probes of one kind."""
        return np.array([i for i, probe in enumerate(self.probes) if probe.kind is kind], dtype=np.int64)

    def first(self, n_contexts: int) -> NDArray[np.int64]:
        """Positions of the probes of the first contexts: a smaller set is the beginning of a larger one."""
        return np.flatnonzero(self.context < n_contexts)

    @property
    def n_without_wrong(self) -> int:
        """Number of contexts without a probe of the kind `wrong`."""
        return self.n_contexts - len({probe.context for probe in self.probes if probe.kind is ProbeKind.WRONG})

    def table(self) -> pl.DataFrame:
        """One row per probe."""
        tokens, counts = self.strata.vocabulary.tokens, self.strata.counts
        return pl.DataFrame(
            {
                "probe": range(len(self.probes)),
                "context": [probe.context for probe in self.probes],
                "kind": [probe.kind.value for probe in self.probes],
                "code": [tokens[probe.code] for probe in self.probes],
                "lift": [probe.lift for probe in self.probes],
                "support": [probe.support for probe in self.probes],
                "train_count": [int(counts[probe.code]) for probe in self.probes],
            }
        )


@dataclass(frozen=True, eq=False)
class _Counts:
    """What the choice of probes looks at."""

    held_out: Cohort
    together: sparse.csr_matrix
    together_in_training: sparse.csr_matrix
    strata: Strata

    def lifts(self, patient: int, codes: NDArray[np.int64]) -> tuple[NDArray, NDArray, NDArray]:
        """Held-out lift and support (context codes × codes) and visits of each code, one patient left out."""
        own = self.held_out.subset([patient]).matrix()
        together = self.together[codes].toarray() - (own[:, codes].T @ own).toarray()
        single = self.held_out.visit_counts - np.asarray(own.sum(axis=0)).ravel()
        n_visits = self.held_out.n_visits - own.shape[0]
        expected = single[codes][:, None] * single[None, :] / max(n_visits, 1)
        lift = np.divide(together, expected, out=np.zeros_like(expected), where=expected > 0)
        return lift, together, single


def probe_set(
    train: Cohort,
    held_out: Cohort,
    n_contexts: int = CONTEXTS[-1],
    seed: int = 1,
    per_context: int = PER_CONTEXT,
    longest: int = 40,
) -> ProbeSet:
    """Probes on held-out histories, by rule.

    Contexts are held-out patients with at least two visits, in seeded random order, cut before the last visit. Those
    with probes of all three kinds come first, so that types can be compared in pairs. A code of the history is never
    probed at it.

    - related_rare: tail codes of the highest held-out lift (above 1, in at least two held-out visits of other patients)
      with a code of the history.
    - unrelated_rare: tail codes of the nearest training count whose held-out lift with every code of the history is at
      most 1.
    - wrong: the most frequent mid or head codes that training never saw in one visit with a code of the history.
    """
    held_out = held_out.on(train.vocabulary)
    cut = next_visits(held_out, longest)
    counts = _Counts(held_out, cooccurrence_counts(held_out), cooccurrence_counts(train), train.strata())
    seen = cut.history_codes
    order = random_stream(seed, "probe contexts").permutation(len(cut.patients))
    whole: list[tuple[int, list[Probe]]] = []
    partial: list[tuple[int, list[Probe]]] = []
    for row in order[:MOST_LOOKED_AT].tolist():
        codes = np.unique(np.asarray(seen[[row]].indices, dtype=np.int64))
        probes_there = list(_probes_at(counts, int(cut.patients[row]), codes, per_context))
        kinds = {probe.kind for probe in probes_there}
        if len(kinds) == len(ProbeKind):
            whole.append((row, probes_there))
        elif {ProbeKind.RELATED_RARE, ProbeKind.UNRELATED_RARE} <= kinds:
            partial.append((row, probes_there))
        if len(whole) == n_contexts:
            break
    chosen = (whole + partial)[:n_contexts]
    if not chosen:
        raise InputError(
            "no held-out history has a related and an unrelated tail code",
            expected=f"tail codes that stand with a code of the history in {SUPPORT} held-out visits",
            remedy="give more held-out patients",
        )
    probes = [
        probe._replace(context=number) for number, (_, probes_there) in enumerate(chosen) for probe in probes_there
    ]
    rows = np.array([row for row, _ in chosen], dtype=np.int64)
    return ProbeSet(tuple(probes), counts.strata, len(rows), cut.histories.subset(rows))


def _probes_at(counts: _Counts, patient: int, codes: NDArray[np.int64], per_context: int) -> Iterator[Probe]:
    """The probes of one context, numbered 0 for now."""
    lift, support, single = counts.lifts(patient, codes)
    fresh = np.ones(len(single), dtype=bool)
    fresh[codes] = False
    tail = counts.strata.tail & fresh
    supported = np.where(support >= SUPPORT, lift, 0.0)
    best, where = supported.max(axis=0), supported.argmax(axis=0)
    related = _largest(best, tail & (best > 1), per_context)
    for code in related:
        yield Probe(0, code, ProbeKind.RELATED_RARE, float(best[code]), int(support[where[code], code]))
    strongest = lift.max(axis=0)
    # A code in fewer held-out visits has no meaningful lift: its absence would prove nothing.
    apart = tail & (strongest <= 1) & (single >= SUPPORT)
    for code in _of_like_count(counts.strata.counts, related, np.flatnonzero(apart)):
        yield Probe(0, code, ProbeKind.UNRELATED_RARE, float(strongest[code]), int(support[:, code].max()))
    never = np.asarray(counts.together_in_training[codes].sum(axis=0)).ravel() == 0
    frequent = (counts.strata.mid | counts.strata.head) & fresh & never
    for code in _largest(counts.strata.counts.astype(np.float64), frequent, per_context):
        yield Probe(0, code, ProbeKind.WRONG, float(strongest[code]), int(support[:, code].max()))


def _largest(values: NDArray[np.float64], allowed: NDArray[np.bool_], n: int) -> list[int]:
    """The allowed positions of the largest values, ties to the smaller position."""
    positions = np.flatnonzero(allowed)
    return positions[np.argsort(-values[positions], kind="stable")][:n].tolist()


def _of_like_count(counts: NDArray[np.int64], codes: list[int], allowed: NDArray[np.int64]) -> list[int]:
    """For each code the unused allowed code with the nearest count; of equal ones the one with the smaller position."""
    free = allowed.tolist()
    chosen = []
    for code in codes:
        if not free:
            break
        nearest = min(free, key=lambda other: (abs(int(counts[other]) - int(counts[code])), other))
        free.remove(nearest)
        chosen.append(nearest)
    return chosen


# ---- trajectories --------------------------------------------------------------------------------------------
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
            "auc": gain_auc(self.log_p),
            "normalised_auc": normalised_auc(self.log_p),
            "trapezoid_gain": trapezoid_gain(self.log_p, self.progress),
            "mean_gain": mean_gain(self.log_p),
        }


class ProbeObserver:
    """Looks at the probes along training; give it to `fit(observers=…)`."""

    def __init__(self, generator: Generator, probes: ProbeSet, looks: int = LOOKS) -> None:
        require_one_shot(generator.settings)
        self.generator, self.probes, self.looks = generator, probes, looks
        self._records = seen_records(generator.settings, probes.histories)
        self._at = torch.from_numpy(probes.context), torch.from_numpy(probes.code)
        self._seen: list[dict[str, Any]] = []
        self._first = self._last = torch.zeros(0)

    @torch.no_grad()
    def look(self, modules: nn.Module, moment: Moment) -> None:
        """Record the log-probabilities of this moment."""
        assert isinstance(modules, Network)
        batch = replace(self._records, order=modules.order).batch(np.arange(self.probes.n_contexts))
        logits = modules.next_logits(batch)
        assert logits is not None
        logits = logits[:, modules.order.position_of]
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


def gain_auc(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's AUC: Σ over checkpoints t ≥ 1 of max(0, log p_t − log p_0).

    >>> gain_auc(np.array([[-3.0], [-1.0], [-2.0], [-4.0]])).tolist()
    [3.0]
    """
    return np.maximum(0.0, log_p[1:] - log_p[0]).sum(axis=0)


def normalised_auc(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's normalised AUC: AUC / ((T − 1) · the largest gain), T checkpoints after θ0; 0 without a gain.

    >>> normalised_auc(np.array([[-3.0], [-1.0], [-2.0], [-4.0]])).tolist()
    [0.75]
    """
    largest = np.maximum(0.0, log_p[1:] - log_p[0]).max(axis=0)
    return np.divide(gain_auc(log_p), max(len(log_p) - 2, 1) * largest, out=np.zeros_like(largest), where=largest > 0)


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
                interval = paired_difference(sides[0], sides[1], seed)
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


# ---- the end of training -------------------------------------------------------------------------------------
def endpoint_table(trajectory: Trajectory, strata: Strata, seed: int | None = None) -> pl.DataFrame:
    """Root mean squares over contexts and codes of z_T − z_0 − b, z_T − z_0 and b, overall and by stratum.

    `share_internalised` is the slope of the drift z_T − z_0 on b through 0: 1 would be the ideal endpoint identity, 0
    is a network whose logits end where they began. A network that starts at logit π̂ and learns the prevalences has no
    reason to move by b, whatever the schedule: the identity needs a start at z̃* − b.
    """
    drift = trajectory.last_logits.astype(np.float64) - trajectory.first_logits
    rows = []
    for name, mask in {"all": strata.present, "head": strata.head, "mid": strata.mid, "tail": strata.tail}.items():
        moved, bias = drift[:, mask], np.broadcast_to(trajectory.bias[mask], (len(drift), int(mask.sum())))
        rows.append(
            {
                "schedule": trajectory.schedule,
                "seed": seed,
                "stratum": name,
                "codes": int(mask.sum()),
                "contexts": len(drift),
                "deviation": _root_mean_square(moved - bias),
                "logit_drift": _root_mean_square(moved),
                "bias": _root_mean_square(bias),
                "share_internalised": float((moved * bias).sum() / max(float((bias**2).sum()), 1e-300)),
            }
        )
    return pl.DataFrame(rows)


def _root_mean_square(values: np.ndarray) -> float:
    """√ of the mean square.

    >>> round(_root_mean_square(np.array([3.0, 4.0])) ** 2, 6)
    12.5
    """
    return float(np.sqrt((values**2).mean())) if values.size else float("nan")
