"""Entries that are left out take emptied visits and patients with them, and values stay with their codes."""

from __future__ import annotations

import numpy as np

from adapcla.records import Code, Cohort
from adapcla.records.keeping import kept_entries

LAB = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")


def test_values_and_days_follow_the_entries_that_stay() -> None:
    values = np.array([np.nan, 90, 110, np.nan], dtype=np.float32)
    cohort = Cohort.of(
        [[["A", "LAB/glucose"], ["LAB/glucose"], ["A"]]],
        ["A", LAB],
        values=values,
        days=np.array([0, 3, 9], dtype=np.int32),
    )
    part = kept_entries(cohort, np.array([False, False, True, True]), "entries left out")
    assert part.values is not None and part.values[0] == 110 and np.isnan(part.values[1])
    assert part.days is not None and part.days.tolist() == [0, 6]
    assert part.card["dropped"] == {"entries left out": 2, "visits left empty": 1}
