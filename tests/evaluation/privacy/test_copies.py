"""Copies, near copies and copied runs: counted against controls, so that what repeats by nature does not count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort, Vocabulary
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.privacy.copies import (
    copy_excess,
    drawn_share,
    entries_per_patient,
    excess_score,
    holds_pair,
    long_enough,
    match_excess,
    near_contributions,
    near_copy_excess,
    rare_copy_excess,
    run_excess,
)
from adapcla.evaluation.privacy.owners import owned_pairs

CODES = [f"C{number:03d}" for number in range(400)]


def _patients(first: int, n: int) -> list[list[list[str]]]:
    """Patients of two visits of three codes, each on codes of his own."""
    return [[CODES[k : k + 3], CODES[k + 100 : k + 103]] for k in range(first, first + n)]


def _comparison(synthetic: list[list[list[str]]]) -> Comparison:
    """60 members on codes 0–59 and 60 controls on codes 200–259; codes of neighbours overlap, records do not."""
    vocabulary = Vocabulary.of(CODES)
    train, control, made = (Cohort.of(p, vocabulary) for p in (_patients(0, 60), _patients(200, 60), synthetic))
    return Comparison.of(train, control, made, control=control)


def test_half_copied_from_members_a_tenth_from_controls() -> None:
    """Of 100 records 50 are members', 10 are controls' and 40 nobody's: 0.5 − 0.1 = 0.4."""
    made = _patients(0, 50) + _patients(200, 10) + [[["C399"], CODES[k : k + 6]] for k in range(40)]
    score = copy_excess(_comparison(made))[ALL]
    assert score.n == 100
    assert score.value == pytest.approx(0.4)
    assert score.low is not None and score.high is not None and score.low < 0.4 < score.high


def test_what_members_and_controls_both_hold_is_no_copy() -> None:
    """All hold one and the same record, as does the synthetic cohort: the excess is 0."""
    cohort = Cohort.of([[list("ABC"), list("DEF")]] * 60)
    other = Cohort.of([[list("ABC"), list("DEF")]] * 61)
    assert copy_excess(Comparison.of(cohort, other, cohort, control=other))[ALL].value == 0.0


def test_short_records_are_not_eligible_and_few_records_say_nothing() -> None:
    score = copy_excess(_comparison(_patients(0, 49) + [[["C000"]]] * 100))[ALL]
    assert score.value is None
    assert score.reason.startswith("insufficient data: 49 synthetic records")


def test_copied_single_visits_with_rare_codes_are_seen() -> None:
    """Single visits are too short for a copy, but all 60 hold codes of fewer than 11 patients: all are rare copies."""
    vocabulary = Vocabulary.of(CODES)
    visits = [[patient[0]] for patient in _patients(0, 60)]
    others = [[patient[0]] for patient in _patients(200, 60)]
    train, control, made = (Cohort.of(p, vocabulary) for p in (visits, others, visits))
    comparison = Comparison.of(train, control, made, control=control)
    assert copy_excess(comparison)[ALL].value is None
    assert rare_copy_excess(comparison)[ALL].value == 1.0


def test_a_rare_code_with_one_other_is_too_little_to_be_a_copy() -> None:
    vocabulary = Vocabulary.of(CODES)
    train, control = (Cohort.of([[CODES[k : k + 2]] for k in range(a, a + 60)], vocabulary) for a in (0, 200))
    assert rare_copy_excess(Comparison.of(train, control, train, control=control))[ALL].value is None


def test_runs_are_found_inside_longer_records() -> None:
    """Each synthetic record is a visit of its own and then a member's two visits: of its two runs one is copied."""
    made = [[["C399"], *patient] for patient in _patients(0, 60)]
    score = run_excess(_comparison(made))[ALL]
    assert score.n == 120
    assert score.value == pytest.approx(0.5)


def test_near_is_as_near_as_the_nearest_controls_are() -> None:
    """Controls lie 12 from any member (nothing shared), so near is 12 and all records of six codes are near both."""
    comparison = _comparison(_patients(0, 60))
    contributions, radius = near_contributions(comparison.synthetic, comparison.train, comparison.test)
    assert radius == 12.0
    assert contributions[:60].sum() == 60 and contributions[60:].sum() == -60


def test_records_without_one_code_are_near_copies() -> None:
    """Controls differ from members in two codes (distance 4); members without a code lie at 1 from members only."""
    base = [[[*CODES[:3], CODES[k]], CODES[3:6]] for k in range(10, 70)]
    controls = [[[*CODES[:3], CODES[k]], [*CODES[3:6], CODES[k + 1]]] for k in range(200, 260)]
    made = [[visits[0][1:], visits[1]] for visits in base]
    vocabulary = Vocabulary.of(CODES)
    train, control, synthetic = (Cohort.of(p, vocabulary) for p in (base, controls, made))
    comparison = Comparison.of(train, control, synthetic, control=control)
    _, radius = near_contributions(synthetic, train, control)
    assert radius == 3.0
    assert near_copy_excess(comparison)[ALL].value == 1.0


def test_no_copy_among_few_records_is_not_certainty() -> None:
    """Without a copy among n records the half-width is 1.96/(n + 2) (Agresti and Min with no discordant pair)."""
    score = excess_score(np.zeros(5), 98)
    assert score.value == 0.0
    assert score.high == pytest.approx(1.96 / 100, rel=1e-3)


def test_one_record_copied_often_is_one_piece_of_evidence() -> None:
    """100 copies of one record may be chance: the interval reaches below 0; copies of 100 records are not."""
    one, many = np.array([100.0]), np.ones(100)
    once, often = excess_score(one, 1000), excess_score(many, 1000)
    assert once.value == often.value == 0.1
    assert once.low is not None and once.low < 0
    assert often.low is not None and often.low > 0.07


def test_kinds_held_by_both_cancel() -> None:
    ids = np.array([0, 0, 1])
    assert match_excess(ids, ids, ids)[0].tolist() == [0.0, 0.0]


def test_the_larger_group_counts_as_a_random_part_of_it() -> None:
    """Of four members a random two hold kind 0 (one holder) with chance ½ and kind 1 (two holders) with 5/6."""
    contributions, times = match_excess(np.array([0, 0, 1, 5]), np.array([0, 1, 1, 2]), np.array([3, 4]))
    assert contributions[:2] == pytest.approx([2 * 0.5, 5 / 6])
    assert times[:2].tolist() == [2.0, 1.0]


@given(st.integers(2, 12), st.data())
def test_drawn_share_is_that_of_all_draws(total: int, data: st.DataObject) -> None:
    drawn, held = data.draw(st.integers(1, total)), data.draw(st.integers(0, total))
    draws = list(combinations(range(total), drawn))
    expected = sum(min(draw) < held for draw in draws) / len(draws)
    assert drawn_share(np.array([held]), total, drawn)[0] == pytest.approx(expected, abs=1e-9)


def test_cutting_the_members_by_chance_is_right_on_average() -> None:
    """240 members, 60 controls, 40 members copied: a quarter of the members holds ten of the copies in the mean."""
    train, control = (
        Cohort.of([[CODES[k : k + 4], CODES[k : k + 3]] for k in range(a, b)], CODES) for a, b in ((0, 240), (300, 360))
    )
    made = Cohort.of([*train.subset(range(40)).patients(), *[[["C399"], CODES[k : k + 6]] for k in range(60)]], CODES)
    score = copy_excess(Comparison.of(train, control, made, control=control))[ALL]
    assert score.value == pytest.approx(0.1)


def test_sizes_of_records() -> None:
    cohort = Cohort.of([[list("ABC"), list("ABC")], [list("ABCDEF")], [list("ABC"), list("AB")]])
    assert entries_per_patient(cohort).tolist() == [6, 6, 5]
    assert long_enough(cohort).tolist() == [True, False, False]
    assert holds_pair(cohort, owned_pairs([cohort])).tolist() == [False, True, False]
