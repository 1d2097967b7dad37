"""Cases A and B on small worlds and by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.data import Cohort, Strata, Vocabulary
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.generation import generator_for
from adapcla.study.analysis.cases import (
    AGAIN,
    HELD_OUT,
    PREVALENCE,
    REAL,
    TRUTH,
    agreements,
    chosen_examples,
    code_page,
    example_markdown,
    example_table,
    law_table,
    next_visit_tables,
    overlap_table,
    predictors,
    shared_neighbours,
)
from adapcla.study.analysis.probes import next_visits, true_next_visit

# ---- cases ---------------------------------------------------------------------------------------------------
CODES = Vocabulary.of(["A", "B", "C"])
#: A is head, B mid, C tail.
STRATA = Strata.of(np.array([9, 5, 1]), CODES)
#: Two histories: {A} then {A, C}; {B} then {B}.
CASES = next_visits(Cohort.of([[["A"], ["A", "C"]], [["B"], ["B"]]], CODES))


def score_of(table: pl.DataFrame, stratum: str, measure: str) -> float:
    return table.filter((pl.col("stratum") == stratum) & (pl.col("measure") == measure))["value"][0]


def test_hit_rates_by_hand():
    """Chances (½, 0, ½) for the first, (0, 1, ½) for the second; what came: A, C and B.

    Drawn in all: 1 + 1.5 = 2.5; drawn and right: ½ + ½ + 1 = 2. Real codes: 3. In the tail: drawn 1, right ½, real 1.
    """
    chance = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.5]])
    table, bins = next_visit_tables(CASES, {"mine": lambda cohort: chance}, STRATA)
    assert score_of(table, "all", "hit_rate") == pytest.approx(2 / 2.5)
    assert score_of(table, "all", "chance_of_true_code") == pytest.approx(2 / 3)
    assert score_of(table, "all", "expected_to_observed") == pytest.approx(2.5 / 3)
    assert score_of(table, "tail", "hit_rate") == 0.5
    assert score_of(table, "tail", "chance_of_true_code") == 0.5
    assert score_of(table, "new all", "chance_of_true_code") == 0.5  # C alone is new
    assert score_of(table, "all", "brier") == pytest.approx((0.25 + 0.25 + 0 + 0 + 0 + 0.25) / 6)
    half = bins.filter((pl.col("stratum") == "all") & (pl.col("low") == 0.5)).row(0, named=True)
    assert (half["n"], half["expected"], half["observed"]) == (3, 0.5, pytest.approx(2 / 3))


def test_recall_counts_places_of_the_ranking(monkeypatch):
    """Order of the first: C, A, B; of the second: A, B, C. The top one holds C of {A, C} and nothing of {B}."""
    monkeypatch.setattr("adapcla.study.analysis.cases.TOPS", (1, 2))
    chance = np.array([[0.2, 0.1, 0.9], [0.9, 0.5, 0.1]])
    table, _ = next_visit_tables(CASES, {"mine": lambda cohort: chance}, STRATA)
    assert score_of(table, "all", "recall_at_1") == pytest.approx(1 / 3)
    assert score_of(table, "all", "recall_at_2") == 1.0
    assert score_of(table, "mid", "recall_at_1") == 0.0
    assert score_of(table, "mid", "recall_at_1_within") == 1.0


def test_a_stratum_without_events_has_no_value_and_no_crash():
    cases = next_visits(Cohort.of([[["A"], ["A"]]], CODES))
    table, _ = next_visit_tables(cases, {"mine": lambda cohort: np.zeros((1, 3))}, STRATA)
    assert score_of(table, "tail", "hit_rate") is None
    assert score_of(table, "tail", "recall_at_10") is None


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
    assert score_of(table, "new all", "chance_of_true_code") == 0.0
    assert score_of(table, "all", "hit_rate") == 1.0


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


# ---- law -----------------------------------------------------------------------------------------------------
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


# ---- examples ------------------------------------------------------------------------------------------------
def test_the_choice_depends_on_the_histories_and_the_seed_alone(world):
    cases = next_visits(world.test)
    first = chosen_examples(cases, 3, seed=1)
    assert len(set(first.tolist())) == 3
    assert chosen_examples(cases, 3, seed=2).tolist() != first.tolist()
    shuffled = cases.some(first[::-1].copy())
    again = cases.patients[first].tolist()
    assert shuffled.patients[chosen_examples(shuffled, 3, seed=1)].tolist() == again


def test_an_example_sorts_every_code_into_correct_wrong_and_missed(world, probed):
    cases = next_visits(world.test)
    table = example_table(cases, {"adapcla": probed.generator}, world.train.strata(), 2)
    case = int(chosen_examples(cases, 1)[0])
    truth = set(table.filter((pl.col("example") == 0) & (pl.col("role") == "truth"))["code"])
    tokens = world.test.vocabulary.tokens
    assert truth == {tokens[c] for c in cases.following[[case]].indices}
    mine = table.filter((pl.col("example") == 0) & (pl.col("source") == "adapcla"))
    roles = {role: set(mine.filter(pl.col("role") == role)["code"]) for role in ("correct", "wrong", "missed")}
    assert roles["correct"] | roles["missed"] == truth
    assert not roles["wrong"] & truth


def test_the_page_marks_what_is_right_wrong_and_rare():
    table = pl.DataFrame(
        [
            {"example": 0, "source": "mine", "role": "correct", "code": "A", "description": "Alpha", "tail": True},
            {"example": 0, "source": "mine", "role": "wrong", "code": "B", "description": "", "tail": False},
        ]
    )
    assert "| mine | ✓ Alpha ◆; ✗ B |" in example_markdown(table)


def test_equal_histories_are_all_candidates():
    cases = next_visits(Cohort.of([[["A"], ["B"]], [["A"], ["A"]]]))
    assert chosen_examples(cases, 5).tolist() == [0, 1]


# ---- neighbourhoods ------------------------------------------------------------------------------------------
#: T is the tail; it stands with A twice and with B once.
TRAIN = Cohort.of([[["T", "A"], ["T", "A", "B"]], [["A", "B"], ["A", "B"]], [["B"], ["A"]]])


def test_shared_neighbours_by_hand():
    made = Cohort.of([[["T", "A"], ["B"]]], TRAIN.vocabulary)
    share = shared_neighbours(cooccurrence_counts(TRAIN), cooccurrence_counts(made))
    assert share[TRAIN.vocabulary.index["T"]] == 0.5


def test_a_copy_shares_everything_and_a_stranger_nothing():
    stranger = Cohort.of([[["T"], ["A"], ["B"]]], TRAIN.vocabulary)
    table = overlap_table(TRAIN, TRAIN, {"copy": TRAIN, "stranger": stranger})
    found = {(row["reference"], row["method"]): row for row in table.to_dicts()}
    assert found[REAL, "copy"]["mean"] == 1.0 and found[REAL, HELD_OUT]["mean"] == 1.0
    assert found[REAL, "stranger"]["mean"] == 0.0 and found[REAL, "stranger"]["never_written"] == 0.0
    assert (HELD_OUT, HELD_OUT) not in found
    assert found[REAL, "copy"]["n"] == 1


def test_a_code_that_is_never_written_counts_nothing():
    silent = Cohort.of([[["A", "B"]]], TRAIN.vocabulary)
    row = overlap_table(TRAIN, TRAIN, {"silent": silent}).filter(pl.col("method") == "silent").row(0, named=True)
    assert row["mean"] == 0.0 and row["never_written"] == 1.0


def test_the_page_of_a_code_by_hand():
    """Made: T stands with B (seen) and C, which nobody real has beside it."""
    train = Cohort.of([[["T", "A"], ["T", "A", "B"]], [["A", "B", "C"]]])
    made = Cohort.of([[["T", "B", "C"]]], train.vocabulary)
    page = code_page("T", train, train, {"mine": made})
    assert (page.train_visits, page.held_out_visits) == (2, 2)
    real = page.neighbours.filter(pl.col("source") == REAL)
    assert real["code"].to_list() == ["A", "B"]
    mine = page.neighbours.filter(pl.col("source") == "mine")
    assert dict(zip(mine["code"], mine["in real top"], strict=True)) == {"B": "yes", "C": "no"}
    pairs = {row["pairs"]: row for row in page.pairs.to_dicts()}
    assert pairs["seen in training"]["such as"] == "B" and pairs["never seen"]["such as"] == "C"
    assert page.before["code"].to_list() == ["A", "T"]
    assert "# T" in page.markdown()


def test_a_page_can_have_the_annealing_and_the_kernel(world, probed):
    code = np.flatnonzero(world.train.strata().tail & (world.test.visit_counts > 0))[0]
    token = world.train.vocabulary.tokens[code]
    cases = next_visits(world.test)
    page = code_page(token, world.train, world.test, {}, probed.trajectory, probed.generator, cases)
    assert page.trend is not None and len(page.trend) == len(probed.trajectory.steps)
    assert page.similarity is not None and (page.similarity["all"].abs() <= 1).all()
    assert "Along training" in page.markdown()


def test_an_unknown_code_is_named():
    with pytest.raises(InputError, match="no code is called"):
        code_page("Q", TRAIN, TRAIN, {})
