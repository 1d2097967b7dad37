"""2,000 mutated files, in two halves that may run side by side; each half is bounded to half a minute of reading.

The whole run has no bound: `python -m tests.io.fuzz --files 10000`.
"""

from __future__ import annotations

import random

import pytest
from tests.io.fuzz import mutated, run


@pytest.mark.parametrize("first_seed", [0, 1_000])
def test_mutated_files_end_in_a_cohort_or_a_named_error(first_seed: int) -> None:
    counts = run(files=1_000, seconds=29, first_seed=first_seed)
    assert set(counts) <= {"cohort", "error"}, counts
    # Both ends are reached, so that neither is untested.
    assert counts["cohort"] > 0 and counts["error"] > 0


def test_a_mutation_changes_most_files() -> None:
    content = b"who,what\n1,A\n2,B\n"
    changed = [mutated(content, random.Random(seed)) for seed in range(200)]
    assert sum(result != content for result in changed) > 150
    assert len(set(changed)) > 150
