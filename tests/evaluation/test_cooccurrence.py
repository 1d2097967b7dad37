"""Pairs and neighbours of rare codes on cases solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import scores_of, value_of

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.metric import METRICS

LN2 = float(np.log(2.0))


def scores(key: str, train: Cohort, test: Cohort, synthetic: Cohort) -> dict[str, Score]:
    return scores_of(key, train, synthetic, test)


def value(key: str, train: Cohort, test: Cohort, synthetic: Cohort) -> float | None:
    return value_of(key, train, synthetic, test)


@pytest.fixture
def three() -> tuple[Cohort, Cohort, Cohort]:
    """Train {A,B} {A,B} {A,T}: counts A 3, B 2, T 1, so T is the tail. Test {B,T} {A,C}.

    Synthetic {A,B} {A,T} {B,T} {T}: pairs AB, AT, BT.
    """
    train = Cohort.of([[["A", "B"]], [["A", "B"]], [["A", "T"]]])
    test = Cohort.of([[["B", "T"]], [["A", "C"]]])
    return train, test, Cohort.of([[["A", "B"], ["A", "T"]], [["B", "T"], ["T"]]])


@pytest.fixture
def two_tails() -> Cohort:
    """Counts A 4, B 5, C 3, D 3, S 1, T 2: of six codes two are tail, S with weight 1 and T with weight 2."""
    return Cohort.of([[["A", "S"]], [["B", "T"]], [["B", "T"]], *[[["A", "B", "C", "D"]]] * 3])


def test_pairs_seen_in_training_and_in_test(three: tuple[Cohort, Cohort, Cohort]):
    """Training holds AB and AT but not BT: 2 of 3, of the tail pairs AT and BT 1 of 2. Test holds BT alone."""
    assert value("pair_seen", *three) == pytest.approx(2 / 3)
    assert value("tail_pair_seen", *three) == 0.5
    assert value("pair_seen_heldout", *three) == pytest.approx(1 / 3)
    assert value("tail_pair_seen_heldout", *three) == 0.5
    assert scores("tail_pair_seen", *three)["all"].n == 2


def test_context_divergence_of_one_tail_code(three: tuple[Cohort, Cohort, Cohort]):
    """T stands with A in training, with A and B evenly in the synthetic visits: H(¾, ¼) − ½ ln 2 = 0.2158 nats."""
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - 0.5 * LN2
    assert value("tail_ctx_jsd", *three) == pytest.approx(expected)
    assert value("tail_ctx_jsd_heldout", *three) == pytest.approx(expected)
    assert value("tail_topk_jac", *three) == 0.5
    assert value("tail_ctx_left_out", *three) == 0.0


def test_tail_codes_weigh_as_many_visits_as_they_have_in_training(two_tails: Cohort):
    """S keeps its neighbour (divergence 0, overlap 1), T gets a wrong one (ln 2, 0): weights 1 and 2."""
    made = Cohort.of([[["A", "S"]], [["A", "T"]]])
    assert value("tail_ctx_jsd", two_tails, two_tails, made) == pytest.approx(2 * LN2 / 3)
    assert value("tail_topk_jac", two_tails, two_tails, made) == pytest.approx(1 / 3)


def test_a_tail_code_never_generated_is_left_out_of_one_score_and_counts_zero_in_the_other(two_tails: Cohort):
    """Only {A,S} is generated: the divergence is over S alone (0), the overlap over both: (1·1 + 2·0)/3."""
    made = Cohort.of([[["A", "S"]]])
    assert value("tail_ctx_jsd", two_tails, two_tails, made) == 0.0
    assert value("tail_ctx_left_out", two_tails, two_tails, made) == 0.5
    assert value("tail_topk_jac", two_tails, two_tails, made) == pytest.approx(1 / 3)


def test_a_tail_code_generated_alone_is_left_out_too(two_tails: Cohort):
    assert value("tail_ctx_left_out", two_tails, two_tails, Cohort.of([[["S"], ["A", "T"]]])) == 0.5


def test_without_a_tail_code_scores_are_missing_and_say_why(two_tails: Cohort):
    made = Cohort.of([[["A", "B"]]])
    for key in ("tail_pair_seen", "tail_ctx_jsd"):
        score = scores(key, two_tails, two_tails, made)["all"]
        assert score.value is None
        assert "no such code was generated" in score.reason
    assert value("tail_topk_jac", two_tails, two_tails, made) == 0.0
    assert value("pair_seen", two_tails, two_tails, made) == 1.0


def test_without_pairs_at_all_nothing_is_claimed(two_tails: Cohort):
    score = scores("pair_seen", two_tails, two_tails, Cohort.of([[["A"]]]))["all"]
    assert score.value is None
    assert score.reason == "no visit of two codes was generated"


def test_generated_codes_that_training_lacks_make_unseen_pairs(two_tails: Cohort):
    assert value("pair_seen", two_tails, two_tails, Cohort.of([[["A", "B"], ["A", "Z"]]])) == 0.5


def test_memory_is_perfect_against_training_and_not_against_test(two_tails: Cohort):
    test = Cohort.of([[["C", "T"]], [["A", "B"]]])
    assert value("tail_pair_seen", two_tails, test, two_tails) == 1.0
    assert value("tail_pair_seen_heldout", two_tails, test, two_tails) == 0.0


def test_cuts_and_domains_are_scored_apart():
    """Tail {P, T} of six codes; P is a procedure, T a drug; only T's pair is real."""
    codes = [Code.of(c) for c in "ABCD"] + [Code.of("P", domain="procedure"), Code.of("T", domain="drug")]
    vocabulary = Vocabulary.of(codes)
    train = Cohort.of([[["A", "P"]], [["B", "T"]], *[[["A", "B", "C", "D"]]] * 21], vocabulary)
    made = Cohort.of([[["D", "P"]], [["B", "T"]], [["A", "B"]]], vocabulary)
    comparison = Comparison.of(train, train, made)
    assert sorted(comparison.training.domains) == ["domain:diagnosis", "domain:drug", "domain:procedure"]
    assert comparison.training.tail_strata["domain:drug"].tolist() == [False] * 5 + [True]
    found = {stratum: score.value for stratum, score in METRICS["tail_pair_seen"].compute(comparison).items()}
    assert found == {
        "all": 0.5,
        "rare20": 0.0,
        "up to 5": 0.5,
        "up to 20": 0.5,
        "up to 100": 2 / 3,
        "domain:diagnosis": None,
        "domain:drug": 1.0,
        "domain:procedure": 0.0,
    }
    reasons = METRICS["tail_pair_seen"].compute(comparison)
    assert reasons["domain:diagnosis"].reason == "training has no such code"
    assert METRICS["pair_seen"].compute(comparison)["domain:procedure"].value == 0.0


def test_intervals_hold_the_value_and_stay_in_bounds(two_tails: Cohort):
    made = Cohort.of([[["A", "S"], ["B", "T"]], [["A", "T"]], [["A", "B"]], [["C", "T"], ["A", "B", "S"]]] * 6)
    for key in ("pair_seen", "tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac"):
        score = scores(key, two_tails, two_tails, made)["all"]
        assert score.value is not None and score.low is not None and score.high is not None
        low, high = METRICS[key].bounds
        assert low <= score.low <= score.value <= score.high <= high
        assert score.high > score.low


def test_sequence_order_matters_to_sequential_pairs_only():
    forth = Cohort.of([[["A"], ["B"]], [["A"], ["C"]], [["A"], ["B"]]])
    back = Cohort.of([list(reversed(record)) for record in forth.patients()])
    assert value_of("sequential_bigram_r2", forth, forth) == pytest.approx(1.0)
    assert value_of("sequential_bigram_r2", forth, back) < 0
    paired = Cohort.of([[["A", "B"], ["C"]], [["A", "B"], ["B", "C"]]])
    turned = Cohort.of([list(reversed(record)) for record in paired.patients()])
    assert value_of("bigram_r2", paired, turned) == pytest.approx(1.0)
