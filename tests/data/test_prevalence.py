"""Prevalence: tied to its vocabulary, moved by code string, small cells hidden on request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Prevalence, Vocabulary
from adapcla.errors import InputError

shares = st.dictionaries(st.sampled_from("ABCDEFGHIJ"), st.floats(0, 1), max_size=8)


@given(shares, st.randoms())
def test_order_of_rows_does_not_matter(values, random):
    rows = list(values.items())
    random.shuffle(rows)
    assert Prevalence.of(dict(rows)).share.tolist() == Prevalence.of(values).share.tolist()


@given(shares, st.frozensets(st.sampled_from("ABCDEFGHIJ")))
def test_another_vocabulary_is_met_by_string_never_by_position(values, names):
    moved = Prevalence.of(values, n_visits=7).on(Vocabulary.of(names))
    for token, share, known in zip(moved.vocabulary.tokens, moved.share, moved.known, strict=True):
        assert known == (token in values)
        assert not known or share == values[token]
    assert moved.n_visits == 7


@given(shares)
def test_there_and_back_again(values):
    wide = Prevalence.of(values).on(Vocabulary.of("ABCDEFGHIJ"))
    assert wide.on(Vocabulary.of(values)).share.tolist() == Prevalence.of(values).share.tolist()


@pytest.mark.parametrize("share", [-0.1, 1.1, 50.0, float("inf"), -float("inf")])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(InputError, match="outside 0 to 1"):
        Prevalence.of({"A": share, "B": 0.5})


def test_as_many_shares_as_codes():
    with pytest.raises(InputError, match="2 codes"):
        Prevalence(Vocabulary.of("AB"), np.array([0.1]))


def test_small_cells_are_hidden_and_zero_and_large_ones_stay():
    """Of 100 visits: 0, 1, 10, 11 and 100. Below 11 is hidden, but absence and 11 are told."""
    shown = Prevalence(Vocabulary.of("ABCDE"), np.array([0.0, 0.01, 0.10, 0.11, 1.0]), 100).suppress_small_counts(11)
    assert shown.known.tolist() == [True, False, False, True, True]


@given(st.integers(1, 10**6), st.integers(1, 30), st.integers(0, 40))
def test_hiding_follows_the_count_for_any_denominator(n_visits, min_cell, count):
    """The share count / n is rounded in floating point; the decision must be that of the integer."""
    count = min(count, n_visits)
    shown = Prevalence(Vocabulary.of("A"), np.array([count / n_visits]), n_visits).suppress_small_counts(min_cell)
    assert shown.known[0] == (count == 0 or count >= min_cell)


def test_hiding_needs_a_denominator():
    with pytest.raises(InputError, match="number of visits"):
        Prevalence.of({"A": 0.5}).suppress_small_counts()


def test_the_gap_of_sampling_by_hand():
    """Two visits at one half: 0, 1 or 2 hits with chances ¼, ½, ¼, so off by ½ half of the time: ¼. One visit: ½."""
    share = Prevalence(Vocabulary.of("ABC"), np.array([0.5, 1.0, np.nan]))
    assert share.sampling_error(2)[:2].tolist() == pytest.approx([0.25, 0.0])
    assert share.sampling_error(1)[0] == pytest.approx(0.5)
    assert np.isnan(share.sampling_error(2)[2])
    draws = np.random.default_rng(1).binomial(40, 0.03, 200_000) / 40
    assert Prevalence.of({"A": 0.03}).sampling_error(40)[0] == pytest.approx(np.abs(draws - 0.03).mean(), rel=0.01)
