from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.data import Cohort, Strata, Vocabulary
from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.study.analysis.cases import AGAIN, TRUTH, next_visit_tables, predictors
from adapcla.study.analysis.histories import next_visits

CODES = Vocabulary.of(["A", "B", "C"])
#: A is head, B mid, C tail.
STRATA = Strata.of(np.array([9, 5, 1]), CODES)
#: Two histories: {A} then {A, C}; {B} then {B}.
CASES = next_visits(Cohort.of([[["A"], ["A", "C"]], [["B"], ["B"]]], CODES))


def told(table: pl.DataFrame, stratum: str, measure: str) -> float:
    return table.filter((pl.col("stratum") == stratum) & (pl.col("measure") == measure))["value"][0]


def test_hit_rates_by_hand():
    """Chances (½, 0, ½) for the first, (0, 1, ½) for the second; what came: A, C and B.

    Drawn in all: 1 + 1.5 = 2.5; drawn and right: ½ + ½ + 1 = 2. Real codes: 3. In the tail: drawn 1, right ½, real 1.
    """
    chance = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.5]])
    table, bins = next_visit_tables(CASES, {"mine": lambda cohort: chance}, STRATA)
    assert told(table, "all", "hit_rate") == pytest.approx(2 / 2.5)
    assert told(table, "all", "chance_of_true_code") == pytest.approx(2 / 3)
    assert told(table, "all", "expected_to_observed") == pytest.approx(2.5 / 3)
    assert told(table, "tail", "hit_rate") == 0.5
    assert told(table, "tail", "chance_of_true_code") == 0.5
    assert told(table, "new all", "chance_of_true_code") == 0.5  # C alone is new
    assert told(table, "all", "brier") == pytest.approx((0.25 + 0.25 + 0 + 0 + 0 + 0.25) / 6)
    half = bins.filter((pl.col("stratum") == "all") & (pl.col("low") == 0.5)).row(0, named=True)
    assert (half["n"], half["expected"], half["observed"]) == (3, 0.5, pytest.approx(2 / 3))


def test_recall_counts_places_of_the_ranking(monkeypatch):
    """Order of the first: C, A, B; of the second: A, B, C. The top one holds C of {A, C} and nothing of {B}."""
    monkeypatch.setattr("adapcla.study.analysis.cases.TOPS", (1, 2))
    chance = np.array([[0.2, 0.1, 0.9], [0.9, 0.5, 0.1]])
    table, _ = next_visit_tables(CASES, {"mine": lambda cohort: chance}, STRATA)
    assert told(table, "all", "recall_at_1") == pytest.approx(1 / 3)
    assert told(table, "all", "recall_at_2") == 1.0
    assert told(table, "mid", "recall_at_1") == 0.0
    assert told(table, "mid", "recall_at_1_within") == 1.0


def test_a_stratum_without_events_has_no_value_and_no_crash():
    cases = next_visits(Cohort.of([[["A"], ["A"]]], CODES))
    table, _ = next_visit_tables(cases, {"mine": lambda cohort: np.zeros((1, 3))}, STRATA)
    assert told(table, "tail", "hit_rate") is None
    assert told(table, "tail", "recall_at_10") is None


def test_blocks_change_nothing(world, probed, monkeypatch):
    cases = next_visits(world.test)
    runs = predictors({"adapcla": probed.generator}, 10, 1, cases.histories)
    whole, _ = next_visit_tables(cases, {"adapcla": runs["adapcla"]}, world.train.strata())
    monkeypatch.setattr("adapcla.study.analysis.cases._BLOCK", 7)
    parts, _ = next_visit_tables(cases, {"adapcla": runs["adapcla"]}, world.train.strata())
    one, two = (np.nan_to_num(table["value"].to_numpy()) for table in (whole, parts))
    assert one == pytest.approx(two, rel=1e-4)


def test_the_truth_is_the_ceiling_and_calibrated(world, probed):
    cases = next_visits(world.test)
    methods = predictors({"adapcla": probed.generator}, 10, 1, cases.histories)
    assert list(methods) == ["adapcla", AGAIN, TRUTH]
    table, _ = next_visit_tables(cases, methods, world.train.strata())
    losses = {
        row["method"]: row["value"] for row in table.to_dicts() if (row["stratum"], row["measure"]) == ("all", "nll")
    }
    assert losses[TRUTH] == min(losses.values())
    ratio = table.filter(
        (pl.col("method") == TRUTH) & (pl.col("stratum") == "all") & (pl.col("measure") == "expected_to_observed")
    ).row(0, named=True)
    assert ratio["value"] == pytest.approx(1.0, abs=0.15)
    assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_saying_the_last_visit_again_never_finds_a_new_code():
    table, _ = next_visit_tables(CASES, predictors({}, 1, 1, CASES.histories), STRATA)
    assert told(table, "new all", "chance_of_true_code") == 0.0
    assert told(table, "all", "hit_rate") == 1.0


def test_nobody_to_ask_and_another_vocabulary_are_named(world, probed):
    empty = next_visits(Cohort.of([[["A"]]], CODES))
    with pytest.raises(UsageError, match="no held-out patient"):
        next_visit_tables(empty, {}, STRATA)
    with pytest.raises(UsageError, match="another vocabulary"):
        predictors({"adapcla": probed.generator}, 1, 1, CASES.histories)


def test_a_method_without_exact_probabilities_is_asked_by_draws(world):
    floor = generator_for("marginal").fit(world.train, world.valid)
    cases = next_visits(world.test).some(np.arange(5))
    chance = predictors({"marginal": floor}, 20, 1, cases.histories)["marginal"](cases.histories)
    assert chance.shape == (5, world.train.n_codes)
    assert np.allclose(chance * 20, np.round(chance * 20))
