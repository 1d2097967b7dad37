"""Memorised pairs: emitted more often if a member holds them alone than if a control does."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort, Vocabulary
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.privacy.owners import OwnedPairs
from adapcla.evaluation.privacy.pairs_gap import (
    emitted_by_prevalence,
    owned_pair_gap,
    pooled_share,
    tail_pair_seen_gap,
    tail_pairs_seen,
    unique_pair_gap,
)
from adapcla.evaluation.privacy.strata import BEYOND_PREVALENCE

VOCABULARY = Vocabulary.of([f"C{number:03d}" for number in range(240)])


def _visits(first: int, n: int) -> list[list[list[str]]]:
    """Patients of one visit of two codes that nobody else holds."""
    return [[[VOCABULARY.tokens[k], VOCABULARY.tokens[k + 1]]] for k in range(first, first + 2 * n, 2)]


def _comparison(synthetic: list[list[list[str]]]) -> Comparison:
    """60 members and 60 controls, each with a pair of his own."""
    train, control, made = (Cohort.of(p, VOCABULARY) for p in (_visits(0, 60), _visits(120, 60), synthetic))
    return Comparison.of(train, control, made, control=control)


def test_gap_is_the_difference_of_the_shares_emitted() -> None:
    """30 of 60 members' pairs and 6 of 60 controls' pairs are emitted: 0.5 − 0.1."""
    score = unique_pair_gap(_comparison(_visits(0, 30) + _visits(120, 6)))[ALL]
    assert score.value == pytest.approx(0.4)
    assert score.n == 120


def test_gap_moves_with_memorising() -> None:
    gaps = [unique_pair_gap(_comparison(_visits(0, k) + _visits(120, 1)))[ALL].value for k in (1, 10, 30, 60)]
    assert gaps == sorted(gaps, key=lambda gap: gap or 0.0)
    assert len(set(gaps)) == 4


def test_pairs_of_rare_codes_do_not_count_as_pairs_of_common_codes() -> None:
    """Every code is held once, so the stratum of common codes is empty."""
    assert "concerns nobody" in unique_pair_gap(_comparison(_visits(0, 9)))["common_codes"].reason


def test_what_prevalences_bring_is_expected_of_common_codes_alone() -> None:
    """A and B in 11 visits each and C in 10, of 32; a visit of three codes has three pairs.

    Of all pairs by chance AB are 11 · 11 of 11 · 11 + 2 · 11 · 10; C has ten holders: nothing is expected of it.
    """
    members = Cohort.of([[[code]] for code in "A" * 11 + "B" * 11 + "C" * 10])
    pairs = OwnedPairs(np.array([0, 0]), np.array([1, 2]), np.array([0, 1]))
    expected = emitted_by_prevalence(pairs, members, Cohort.of([[["A", "B", "C"]]]))
    assert expected.tolist() == pytest.approx([1 - np.exp(-3 * 121 / 341), 0.0])


def test_nothing_is_taken_off_where_no_code_is_common() -> None:
    scores = unique_pair_gap(_comparison(_visits(0, 30) + _visits(120, 6)))
    assert scores[BEYOND_PREVALENCE] == scores[ALL]


def test_more_than_all_is_all() -> None:
    """Members' pairs are emitted against all expectation, and controls' are not although they were expected."""
    pairs = OwnedPairs(np.zeros(4, int), np.arange(1, 5), np.array([0, 1, 2, 3]))
    score = owned_pair_gap(pairs, np.array([0.9, 0.9, -0.4, -0.4]), 2)
    assert score.value == score.high == 1.0


def test_patients_with_many_pairs_widen_the_error() -> None:
    """Ten hits on one patient of ten pairs are one piece of evidence; on ten patients they are ten."""
    one = pooled_share(np.array([10.0, 0.0]), np.array([10.0, 10.0]))
    ten = pooled_share(np.repeat([1.0, 0.0], 10), np.ones(20))
    assert one[0] == ten[0] == 0.5
    assert one[1] == pytest.approx(np.sqrt(50) / 20) and ten[1] == pytest.approx(np.sqrt(5) / 20)


def test_interval_of_the_gap() -> None:
    """Shares ½ of 4 and 0 of 2 owners: error ¼, so the interval is ½ ± 0.49."""
    pairs = OwnedPairs(np.zeros(6, int), np.arange(1, 7), np.arange(6))
    score = owned_pair_gap(pairs, np.array([True, True, False, False, False, False]), 4)
    assert score.value == 0.5
    assert score.low == pytest.approx(0.01, abs=1e-3)


def test_tail_pairs_are_those_with_a_tail_code() -> None:
    """Of the pairs AB (3 times), AC, BC only AB and AC hold the tail code A; the reference holds AC: 1 of 4."""
    vocabulary = ["A", "B", "C"]
    made = cooccurrence_counts(Cohort.of([[["A", "B"]] * 3 + [["A", "C"], ["B", "C"]]], vocabulary))
    seen, _, n = tail_pairs_seen(made, Cohort.of([[["A", "C"]]], vocabulary), np.array([True, False, False]))
    assert (seen, n) == (0.25, 4)


def test_copying_members_shows_in_the_tail_gap() -> None:
    """All tail pairs generated are members' and none a control's."""
    scores = tail_pair_seen_gap(_comparison(_visits(0, 60)))
    assert (scores["members"].value, scores["controls"].value, scores[ALL].value) == (1.0, 0.0, 1.0)


def test_no_tail_pair_is_null_with_a_reason() -> None:
    score = tail_pair_seen_gap(_comparison([[["C000"]]]))[ALL]
    assert (score.value, score.reason) == (None, "no pair with a tail code was generated")


def test_where_no_pair_has_a_single_owner_the_share_of_pairs_seen_has_no_error():
    shared = Cohort.of([[["A", "B"]], [["A", "B"]]])
    assert tail_pairs_seen(cooccurrence_counts(shared), shared, np.array([True, False])) == (1.0, 0.0, 2)
