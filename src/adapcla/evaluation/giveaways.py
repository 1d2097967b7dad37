"""What a patient's record shows to somebody who asks whether it is real: sizes, gaps, codes and pairs as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.data.ragged import segment_sums

Floats = NDArray[np.float64]
#: Codes and pairs that have a column of their own: those that most patients and visits hold.
N_CODES, N_PAIRS = 100, 50
#: The kinds of columns.
KINDS = ("sizes", "gaps", "codes", "pairs")


@dataclass(frozen=True, eq=False)
class Giveaways:
    """Patients × columns, with the name and the kind of each column.

    >>> seen = Giveaways.of(Cohort.of([[["A", "B"], ["A"]], [["B"]]]), Columns.of(Cohort.of([[["A", "B"]]])))
    >>> dict(zip(seen.names[:2], seen.values[0, :2].tolist()))
    {'visits': 2.0, 'codes': 3.0}
    >>> seen.values[:, seen.names.index('A')].tolist(), seen.values[:, seen.names.index('A + B')].tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Floats

    @classmethod
    def of(cls, cohort: Cohort, columns: Columns) -> Giveaways:
        """The columns of every patient."""
        parts = {
            "sizes": _sizes(cohort),
            "gaps": _gaps(cohort) if columns.with_days else {},
            "codes": _codes(cohort, columns),
            "pairs": _pairs(cohort, columns),
        }
        named = [(name, kind, values) for kind, part in parts.items() for name, values in part.items()]
        table = np.stack([values for _, _, values in named], axis=1)
        return cls(tuple(name for name, _, _ in named), tuple(kind for _, kind, _ in named), table)

    def of_kind(self, kind: str) -> NDArray[np.int64]:
        """The positions of the columns of one kind."""
        return np.flatnonzero(np.array(self.kinds) == kind)


@dataclass(frozen=True, eq=False)
class Columns:
    """Which codes and pairs have a column, and how much likelier than by chance each pair of these codes is."""

    codes: NDArray[np.int64]
    pairs: NDArray[np.int64]
    #: Codes × codes: log of the visits that hold both, divided by what independence would give.
    lift: Floats
    with_days: bool

    @classmethod
    def of(cls, everybody: Cohort) -> Columns:
        """The columns that patients call for, real and synthetic ones together, so that neither side chose them.

        >>> Columns.of(Cohort.of([[["A", "B"]], [["B"]]])).pairs.tolist()
        [[0, 1]]
        """
        order = np.argsort(-everybody.patient_counts, kind="stable")[:N_CODES]
        codes = np.sort(order[everybody.patient_counts[order] > 0])
        # Half a visit gives a pair that never occurs a finite place.
        both = cooccurrence_counts(everybody)[codes][:, codes].toarray().astype(np.float64)
        alone = everybody.visit_counts[codes].astype(np.float64)
        lift = np.log((both + 0.5) / (np.outer(alone, alone) / max(everybody.n_visits, 1) + 0.5))
        first, second = np.triu_indices(len(codes), 1)
        most = np.argsort(-both[first, second], kind="stable")[:N_PAIRS]
        most = most[both[first, second][most] > 0]
        return cls(codes, np.stack([codes[first[most]], codes[second[most]]], axis=1), lift, everybody.days is not None)


def _sizes(cohort: Cohort) -> dict[str, Floats]:
    """Lengths of the record and of its visits, and how much of it repeats."""
    starts, sizes = np.asarray(cohort.patient_starts), cohort.codes_per_visit.astype(np.float64)
    visits = cohort.visits_per_patient.astype(np.float64)
    codes = segment_sums(sizes, starts)
    mean = codes / visits
    different = np.asarray((cohort.patient_matrix() > 0).sum(axis=1), dtype=np.float64).ravel()
    spread = np.maximum(segment_sums(sizes**2, starts) / visits - mean**2, 0.0)
    step = cohort.visits_with_next
    owner, shared = cohort.patient_of_visit[step], cohort.jaccard(step, step + 1)
    steps = np.maximum(visits - 1, 1)
    return {
        "visits": visits,
        "codes": codes,
        "different codes": different,
        "codes held again": 1 - different / codes,
        "codes per visit": mean,
        "smallest visit": np.minimum.reduceat(sizes, starts[:-1]),
        "largest visit": np.maximum.reduceat(sizes, starts[:-1]),
        "spread of visit sizes": np.sqrt(spread),
        "first visit": sizes[cohort.first_visits],
        "last visit": sizes[cohort.last_visits],
        "overlap with the next visit": np.bincount(owner, shared, minlength=cohort.n_patients) / steps,
    }


def _gaps(cohort: Cohort) -> dict[str, Floats]:
    """Days between visits; −1 where there is no second visit."""
    days, step = np.asarray(cohort.days, dtype=np.float64), cohort.visits_with_next
    gap, owner, n = days[step + 1] - days[step], cohort.patient_of_visit[step], cohort.n_patients
    several = cohort.visits_per_patient > 1
    total, steps = np.bincount(owner, gap, minlength=n), np.maximum(cohort.visits_per_patient - 1, 1)
    longest, shortest = np.full(n, -1.0), np.full(n, np.inf)
    np.maximum.at(longest, owner, gap)
    np.minimum.at(shortest, owner, gap)
    columns = {
        "days in all": total,
        "mean gap": total / steps,
        "longest gap": longest,
        "shortest gap": shortest,
        "gaps of 0 days": np.bincount(owner, gap == 0, minlength=n),
    }
    return {name: np.where(several, values, -1.0) for name, values in columns.items()}


def _codes(cohort: Cohort, columns: Columns) -> dict[str, Floats]:
    """Visits that hold each of the codes."""
    counts = cohort.patient_matrix()[:, columns.codes].toarray().astype(np.float64)
    tokens = cohort.vocabulary.tokens
    return {tokens[code]: counts[:, i] for i, code in enumerate(columns.codes)}


def _pairs(cohort: Cohort, columns: Columns) -> dict[str, Floats]:
    """Visits that hold each of the pairs, and how usual the pairs of the patient's common codes are."""
    starts, visits = np.asarray(cohort.patient_starts), cohort.matrix().tocsc()
    common = visits[:, columns.codes].tocsr().astype(np.float64)
    n_common = np.asarray(common.sum(axis=1)).ravel()
    n_pairs = segment_sums(n_common * (n_common - 1) / 2, starts)
    off_diagonal = columns.lift - np.diag(np.diag(columns.lift))
    lift = segment_sums(np.asarray(common.multiply(common @ off_diagonal).sum(axis=1)).ravel() / 2, starts)
    out = {"mean log lift of pairs": np.where(n_pairs > 0, lift / np.maximum(n_pairs, 1), 0.0)}
    tokens = cohort.vocabulary.tokens
    for first, second in columns.pairs:
        both = np.asarray(visits[:, [first]].multiply(visits[:, [second]]).todense(), dtype=np.float64).ravel()
        out[f"{tokens[first]} + {tokens[second]}"] = segment_sums(both, starts)
    return out
