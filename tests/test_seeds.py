"""Random streams: the same numbers for the same key, whatever else was drawn, and numbers that look random."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adapcla.seeds import keyed_uniform, random_stream, stream_key

keys = st.integers(0, 2**64 - 1)


def test_keys_are_pinned():
    """A change of these numbers changes every result of every user: it must be a decision, not an accident."""
    assert stream_key(4, "split") == 10737931463310267595
    assert random_stream(4, "split").integers(0, 1000, 4).tolist() == [729, 25, 599, 279]
    assert keyed_uniform(7, np.array([5]), np.array([0]), 2).round(9).tolist() == [[0.297907029, 0.181404841]]


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_every_part_of_a_key_matters(seed, one, two):
    assert (stream_key(seed, "a", one) == stream_key(seed, "a", two)) == (one == two)
    assert stream_key(seed, "a", one) != stream_key(seed, "b", one)
    assert stream_key(seed, "a", one, two) != stream_key(seed, "a", one)


def test_seeds_of_numpy_and_python_are_the_same():
    assert stream_key(np.int64(3), "x", np.int32(2)) == stream_key(3, "x", 2)


@given(keys, st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True), st.integers(1, 9), st.randoms())
def test_a_row_does_not_depend_on_the_others(key, rows, n, random):
    """Any order, any company, any width: row r of (key, row, counter) is the same, and more numbers extend it."""
    counters = [random.randrange(1000) for _ in rows]
    whole = keyed_uniform(key, np.array(rows), np.array(counters), n)
    order = random.sample(range(len(rows)), len(rows))
    mixed = keyed_uniform(key, np.array(rows)[order], np.array(counters)[order], n + 3)
    assert (mixed[:, :n] == whole[order]).all()


@given(keys)
def test_numbers_stay_inside_zero_and_one(key):
    drawn = keyed_uniform(key, np.arange(50), np.zeros(50, dtype=np.int64), 20)
    assert (drawn > 0).all()
    assert (drawn < 1).all()


def test_numbers_are_even_and_unrelated():
    """200,000 numbers in ten bins: 20,000 ± 5 sigma (670) in each; neighbours along all three keys uncorrelated."""
    n = 200_000
    lots = {
        "rows": keyed_uniform(1, np.arange(n), np.zeros(n, dtype=np.int64), 1)[:, 0],
        "counters": keyed_uniform(1, np.zeros(n, dtype=np.int64), np.arange(n), 1)[:, 0],
        "columns": keyed_uniform(1, np.array([0]), np.array([0]), n)[0],
    }
    for drawn in lots.values():
        assert np.abs(np.histogram(drawn, bins=10, range=(0, 1))[0] - n / 10).max() < 700
        assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(lots["rows"], lots["counters"])[0, 1]) < 5 / np.sqrt(n)


def test_neighbouring_keys_are_unrelated():
    n = 100_000
    one, two = (keyed_uniform(key, np.arange(n), np.zeros(n, dtype=np.int64), 1)[:, 0] for key in (10, 11))
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / np.sqrt(n)
    assert len(np.intersect1d(one, two)) == 0
