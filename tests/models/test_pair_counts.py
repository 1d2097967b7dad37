"""Counts of pairs by visit, by patient and by family."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.io import simulator as planted
from adapcla.models import pair_counts as module
from adapcla.models.pair_counts import pair_counts


def test_pairs_are_counted_by_visit_and_by_patient() -> None:
    counts = pair_counts(Cohort.of([[["A", "B"], ["A", "B"], ["B", "C"]], [["A", "B", "C"]], [["D"]]]))
    pairs = list(zip(counts.first.tolist(), counts.second.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    assert counts.visits.tolist() == [3, 1, 2] and counts.patients.tolist() == [2, 1, 2]


def test_blocks_of_patients_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = planted.simulate(patients=60, codes=60, seed=4)
    whole = pair_counts(world)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 50)
    for one, two in zip(whole, pair_counts(world), strict=True):
        assert np.array_equal(one, two)


def test_families_meet_as_often_as_their_codes() -> None:
    """A and B are one family: they meet each other twice, and C three times, in two patients."""
    cohort = Cohort.of([[["A", "B"], ["A", "B", "C"]], [["A", "C"]], [["D"]]])
    counts = pair_counts(cohort, np.array([0, 0, 1, 2]))
    assert list(zip(counts.first.tolist(), counts.second.tolist(), strict=True)) == [(0, 0), (0, 1)]
    assert counts.visits.tolist() == [2, 3] and counts.patients.tolist() == [1, 2]
