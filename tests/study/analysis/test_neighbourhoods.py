from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError
from adapcla.study.analysis.histories import next_visits
from adapcla.study.analysis.neighbourhoods import (
    HELD_OUT,
    REAL,
    code_page,
    overlap_table,
    shared_neighbours,
    supported_tail_codes,
)

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
    token = supported_tail_codes(world.train, world.test, 1)[0]
    cases = next_visits(world.test)
    page = code_page(token, world.train, world.test, {}, probed.trajectory, probed.generator, cases)
    assert page.trend is not None and len(page.trend) == len(probed.trajectory.steps)
    assert page.similarity is not None and (page.similarity["all"].abs() <= 1).all()
    assert "Along training" in page.markdown()


def test_codes_are_chosen_by_support(world):
    counts = world.train.visit_counts
    tokens = supported_tail_codes(world.train, world.test, 4)
    found = [int(counts[world.train.vocabulary.index[token]]) for token in tokens]
    assert found == sorted(found, reverse=True)
    assert all(world.train.strata().tail[world.train.vocabulary.index[token]] for token in tokens)
    assert np.all(np.array(found) > 0)


def test_an_unknown_code_is_named():
    with pytest.raises(InputError, match="no code is called"):
        code_page("Q", TRAIN, TRAIN, {})
