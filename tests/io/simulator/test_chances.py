"""Chances in closed form, against a world small enough to solve on paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from adapcla.data import Code, Vocabulary
from adapcla.io.simulator.balance import MOST_VISITS, Balance
from adapcla.io.simulator.chances import Chances, History, tilted
from adapcla.io.simulator.names import Layout
from adapcla.io.simulator.structure import N_GROUPS, Links, Structure


def by_hand(log_odds=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)) -> Chances:
    """Codes A, B, C, reasons Y and Z, one syndrome.

    A comes by itself with chance 1/2, B with 1/5, C never. The syndrome comes with chance 2/5 and shows B with 1/2 and
    C with 3/4. A at a visit brings C at the next with 1/10. A is noted again with 3/5.
    """
    vocabulary = Vocabulary.of([Code.of(c) for c in ("A", "B", "C", "Y", "Z")])
    plan = Layout(vocabulary, np.array([0, 0, 0, -1, -1]), np.array([0.5, 0.2, 0.3, 0, 0]), np.array([3, 4]))
    world = Structure(
        emissions=Links(np.array([0, 0]), np.array([1, 2]), np.array([0.5, 0.75])),
        is_rare=np.array([True, False]),
        progressions=Links(np.array([0]), np.array([2]), np.array([0.1])),
        persistence=np.array([0.6, 0, 0, 0, 0]),
        group_factor=np.ones((N_GROUPS, 6)),
        syndrome_rate=np.array([0.4]),
        return_weight=np.array([0.0, np.log(3), 0, 0, 0]),
        first_reason=np.tile([0.25, 0.75], (N_GROUPS, 1)),
        next_reason=np.array([[0.9, 0.1], [0.2, 0.8]]),
    )
    hazard = -np.log(1 - np.array([0.5, 0.2, 0.0, 0.0, 0.0, 0.4]))
    return Chances(plan, world, Balance(hazard, np.zeros(MOST_VISITS - 1)), np.array(log_odds), "base", 1)


def after(previous, ever, n_visits=1) -> History:
    def row(codes):
        return sparse.csr_matrix(np.isin(np.arange(5), codes)[None, :].astype(np.float32))

    return History(row(previous), row(ever), np.array([n_visits]), np.array([0]))


def test_a_first_visit():
    """B: absent by itself (4/5) and not shown (1 − 2/5 · 1/2 = 4/5), so 1 − 16/25. C: 2/5 · 3/4."""
    chances = by_hand().next_visit(by_hand().newcomers)
    assert chances[0] == pytest.approx([0.5, 9 / 25, 0.3, 0.25, 0.75])


def test_a_visit_after_a():
    """A: 1 − 1/2 · 2/5. C: 1 − 9/10 · 7/10. The reason follows Y."""
    chances = by_hand().next_visit(after([0, 3], [0]))
    assert chances[0] == pytest.approx([0.8, 9 / 25, 0.37, 0.9, 0.1])


def test_what_was_seen_long_ago_persists_but_leads_nowhere():
    chances = by_hand().next_visit(after([4], [0], n_visits=2))
    assert chances[0] == pytest.approx([0.8, 9 / 25, 0.3, 0.2, 0.8])


def test_two_members_of_a_syndrome_come_together():
    """P(B, C) = P(C) P(B | syndrome): 3/10 · (1 − 4/5 · 1/2) = 0.18, against 0.108 if independent."""
    law = by_hand()
    joint = law.together(law.newcomers, np.array([1, 0, 3, 0, 2]), np.array([2, 1, 4, 3, 2]))[0]
    assert joint == pytest.approx([0.18, 0.5 * 9 / 25, 0.0, 0.5 * 0.25, 0.3])


def test_a_moved_code_has_its_odds_multiplied_and_leaves_the_others_alone():
    """A's odds 1 : 1 become 3 : 1; after a visit with A, 4 : 1 become 12 : 1."""
    law = by_hand((np.log(3), 0, 0, 0, 0, 0))
    assert law.next_visit(law.newcomers)[0] == pytest.approx([0.75, 9 / 25, 0.3, 0.25, 0.75])
    assert law.next_visit(after([0, 3], [0]))[0, 0] == pytest.approx(12 / 13)


def test_a_moved_syndrome_moves_its_members_and_names_them():
    """The syndrome's odds 2 : 3 times 3/2 are 1 : 1. C: 1/2 · 3/4."""
    law = by_hand((0, 0, 0, 0, 0, np.log(1.5)))
    assert law.next_visit(law.newcomers)[0] == pytest.approx([0.5, 1 - 0.8 * 0.75, 0.375, 0.25, 0.75])
    assert law.moved_members.tolist() == [False, True, True, False, False]
    assert not law.code_shift.any()


def test_whether_a_record_goes_on():
    """Even odds, three times as much after B; always before the first visit, never after the last."""
    law = by_hand()
    assert law.continues(after([0, 3], [])) == pytest.approx([0.5])
    assert law.continues(after([1, 3], [])) == pytest.approx([0.75])
    assert law.continues(law.newcomers) == pytest.approx(1)
    assert law.continues(after([1, 3], [], n_visits=MOST_VISITS)) == pytest.approx(0)


@given(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=5), st.floats(-4, 4))
def test_tilting_adds_to_the_log_odds_and_can_be_undone(chances, amount):
    chance = np.array(chances)
    moved = tilted(chance, np.full(len(chance), amount))
    assert np.log(moved / (1 - moved)) == pytest.approx(np.log(chance / (1 - chance)) + amount, abs=1e-6)
    assert tilted(moved, np.full(len(chance), -amount)) == pytest.approx(chance, rel=1e-6)
