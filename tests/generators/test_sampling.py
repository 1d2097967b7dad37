"""From rolled patients to a cohort, and what its card says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adapcla.generators import Generator
from adapcla.generators.attributes import AttributeLaw
from adapcla.generators.rollout import Rolled
from adapcla.generators.sampling import SampleRule, cohort_of


def test_the_default_rule_adds_nothing() -> None:
    rule = SampleRule()
    assert (rule.temperature, rule.codes_per_visit, rule.min_codes, rule.where) == (1.0, "natural", 0, ())


def test_days_are_summed_gaps_from_each_first_visit(plain: Generator) -> None:
    rolled = Rolled(
        np.array([0, 1, 0], dtype=np.int32),
        np.array([1, 1, 1]),
        np.array([2, 0, 1]),
        np.array([0, 30, 0]),
        np.array([[1], [1], [0]]),
    )
    law = AttributeLaw(("sex",), (("F", "M"),), np.array([[1]]), np.array([1]))
    cohort = cohort_of(replace(plain.model, law=law), rolled, {})
    assert cohort.days is not None and cohort.days.tolist() == [0, 30, 0]
    assert cohort.attributes["sex"].values.tolist() == [0, -1]
    assert cohort.card["dropped"] == {"patients without visits": 1}
