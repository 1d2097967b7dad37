"""Head, mid and tail: the rarest third, ties by code string, only codes seen in training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Strata, Vocabulary
from adapcla.data.prevalence import COUNT_BANDS, TAIL_CUTS

counts = st.lists(st.integers(0, 30), min_size=1, max_size=40)


def strata(values: list[int]) -> Strata:
    return Strata.of(np.array(values), Vocabulary.of(f"C{i:02d}" for i in range(len(values))))


def names(found: Strata, mask: np.ndarray) -> list[str]:
    return [token for token, chosen in zip(found.vocabulary.tokens, mask, strict=True) if chosen]


def test_thirds_by_hand():
    """Seven codes of which one is never seen: six present, two in each third; 6 // 5 = 1 in the rarest 20 %."""
    found = strata([9, 1, 5, 0, 7, 2, 3])
    assert names(found, found.tail) == ["C01", "C05"]
    assert names(found, found.mid) == ["C02", "C06"]
    assert names(found, found.head) == ["C00", "C04"]
    assert names(found, found.rare20) == ["C01"]
    assert names(found, found.singletons) == ["C01"]


def test_equal_counts_are_cut_by_code_string():
    found = strata([4, 4, 4, 4, 4, 4])
    assert names(found, found.tail) == ["C00", "C01"]
    assert names(found, found.head) == ["C04", "C05"]


@given(counts)
def test_the_strata_share_out_the_codes_seen(values):
    found = strata(values)
    together = found.head.astype(int) + found.mid + found.tail
    assert together.tolist() == (np.array(values) > 0).astype(int).tolist()
    assert found.head.sum() == found.tail.sum() == found.present.sum() // 3


@given(counts)
def test_no_tail_code_is_commoner_than_a_mid_or_head_code(values):
    found = strata(values)
    if found.tail.any():
        assert found.counts[found.tail].max() <= found.counts[found.mid | found.head].min()
    assert not (found.rare20 & ~found.tail).any()


@given(counts)
def test_count_bands_share_out_the_codes_seen(values):
    found = strata(values)
    assert sum(found.band(name).astype(int) for name in COUNT_BANDS).tolist() == found.present.astype(int).tolist()


@pytest.mark.parametrize("name", TAIL_CUTS)
def test_every_cut_has_its_mask(name):
    found = strata([1, 1, 2, 3, 5, 8, 13, 21, 34])
    assert found.cut(name).any()
    assert not found.cut(name).all()


def test_counts_must_fit_the_vocabulary():
    with pytest.raises(ValueError, match="3 counts for 2 codes"):
        Strata.of(np.array([1, 2, 3]), Vocabulary.of("AB"))
