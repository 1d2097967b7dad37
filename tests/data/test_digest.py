"""Fingerprints tell contents apart that other ways of writing them down would join."""

from __future__ import annotations

import numpy as np

from adapcla.data import Attribute
from adapcla.data.provenance import cohort_fingerprint


def test_a_number_that_moves_to_the_next_array_changes_the_fingerprint() -> None:
    one = cohort_fingerprint("v", [np.array([1, 2]), np.array([3])], (), {})
    assert one != cohort_fingerprint("v", [np.array([1]), np.array([2, 3])], (), {})


def test_names_and_categories_count() -> None:
    sex = {"sex": Attribute(np.array([0], dtype=np.int16), ("F",))}
    male = {"sex": Attribute(np.array([0], dtype=np.int16), ("M",))}
    assert (
        len(
            {
                cohort_fingerprint("v", [], (), {}),
                cohort_fingerprint("v", [], ("a",), {}),
                cohort_fingerprint("v", [], (), sex),
                cohort_fingerprint("v", [], (), male),
            }
        )
        == 4
    )
