"""Micro-probes: rare codes that belong to a held-out history, rare codes that do not, and plainly wrong ones.

The choice looks at counts of training and held-out visits only, never at a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort, Strata
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.seeds import random_stream
from adapcla.study.analysis.histories import next_visits

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
    seen = cut.seen
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
    # A code in fewer held-out visits has no lift to speak of: its absence would prove nothing.
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
