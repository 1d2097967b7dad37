from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.study.analysis.histories import true_next_visit
from adapcla.study.analysis.law import PREVALENCE, agreements, law_table


def test_who_knows_the_law_agrees_with_it_and_not_with_another_world(world):
    histories = world.test.subset(np.arange(60))
    table = law_table(world.train, histories, {"law": lambda cohort: np.asarray(true_next_visit(cohort))})
    known = table.filter(pl.col("method") == "law")
    assert known.filter(pl.col("world") == "own")["all_cells"].to_list() == pytest.approx([1.0] * 4)
    assert (known.filter(pl.col("world") == "another")["inside_a_code"] < 0.9).all()


def test_prevalences_say_nothing_inside_a_code(world):
    table = law_table(world.train, world.test.subset(np.arange(60)), {})
    assert table["method"].unique().to_list() == [PREVALENCE]
    assert table["inside_a_code"].is_nan().all() and (table["all_cells"] > 0).all()
    strata = world.train.strata()
    assert table.filter(pl.col("stratum") == "tail")["codes"][0] == strata.tail.sum()


def test_agreement_by_hand():
    """Two histories and three codes, ranked alike in the first and turned round in the second."""
    found = agreements(np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[2.0, 4, 9], [9, 4, 2]]))
    assert found["inside_a_history"] == 0.0


def test_other_patients_have_no_known_law():
    cohort = Cohort.of([[["A", "B"], ["A"]], [["B"]]])
    with pytest.raises(UsageError, match="not known"):
        law_table(cohort, cohort, {})
