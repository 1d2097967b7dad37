"""Held-out patients cut before their last visit: what a model is given, and what really followed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.io import simulator as planted


@dataclass(frozen=True, eq=False)
class NextVisits:
    """Patients with at least two visits: all visits but the last, and the last."""

    histories: Cohort
    #: Patients × codes, 1 where the last visit holds the code.
    following: sparse.csr_matrix
    #: The position of each patient in the cohort it was cut from.
    patients: NDArray[np.int64]

    @property
    def seen(self) -> sparse.csr_matrix:
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
    """The true chance of each code at the next visit (patients × codes); None unless the patients are planted.

    With `other_world` it is the chance under the law of another world on the same codes, which a generator that
    learned from these patients cannot know.

    >>> cut = next_visits(planted.simulate(patients=30, codes=60, seed=1))
    >>> true_next_visit(cut.histories).shape == (cut.histories.n_patients, 60)
    True
    >>> true_next_visit(Cohort.of([[["A"]]])) is None
    True
    """
    law = planted.law_of(histories, other_world)
    if law is None:
        return None
    return law.next_visit(law.after_visits(histories).rows(histories.last_visits))
