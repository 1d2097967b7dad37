"""Every score of two small evaluations is the frozen one; `freeze.py` makes the file again after a wanted change.

A metric that the file lacks is new and has a test of its own.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.evaluation.freeze import COLUMNS, PATH, evaluations, frozen


def test_scores_are_the_frozen_ones():
    before = json.loads(PATH.read_text())
    for name, scores in evaluations().items():
        now = frozen(scores)
        assert {key: list(now[key]) for key in before[name]} == {key: list(s) for key, s in before[name].items()}
        for key, strata in before[name].items():
            for stratum, cells in strata.items():
                found, expected = (np.array(row, dtype=float) for row in (now[key][stratum], cells))
                assert found == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True), (key, stratum, COLUMNS)
