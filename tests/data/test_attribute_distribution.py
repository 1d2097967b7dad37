"""Attributes come at their training rates, and given some of them the others keep theirs."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data.attributes import AttributeDistribution
from adapcla.errors import UsageError

LAW = AttributeDistribution(("sex",), (("F", "M"),), np.array([[1], [2]]), np.array([30, 70]))


def test_attributes_come_at_their_training_rates() -> None:
    drawn = LAW.draw(np.arange(5000), seed=1)
    assert (drawn == 2).mean() == pytest.approx(0.7, abs=0.03)
    assert LAW.draw(np.array([17]), seed=1).tolist() == drawn[17:18].tolist()


def test_a_condition_leaves_those_who_fulfil_it() -> None:
    two = AttributeDistribution(
        ("age", "sex"), (("old", "young"), ("F", "M")), np.array([[1, 1], [1, 2], [2, 1]]), np.array([1, 2, 3])
    )
    assert two.given([("age", "old")]).counts.tolist() == [1, 2]
    with pytest.raises(UsageError, match="no training patient"):
        two.given([("age", "young"), ("sex", "M")])
