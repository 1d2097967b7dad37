"""Streams of tokens, and a trunk whose cached steps are its packed pass."""

from __future__ import annotations

import numpy as np
import torch

from adapcla.models.batch import packed
from adapcla.models.tokens import TokenTrunk, stream_of


def two_patients():
    """Patient 0: {0, 2} then {1}; patient 1: {2}."""
    return packed(
        np.array([0, 2, 1, 2], dtype=np.int32),
        np.array([2, 1, 1]),
        np.array([2, 1]),
        np.zeros((2, 0), np.int64),
        np.zeros(3, np.int64),
    )


def test_a_stream_is_codes_and_separators_patient_by_patient():
    """With separator 9: 0 2 9 1 9 | 2 9; one start row; what precedes a first token is the start."""
    stream = stream_of(two_patients(), 9, torch.arange(4))
    assert stream.tokens.tolist() == [0, 2, 9, 1, 9, 2, 9]
    assert stream.visit.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert stream.place.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert stream.row_before.tolist() == [0, 1, 2, 3, 4, 0, 6]
    assert stream.last_row.tolist() == [5, 7]
    assert stream.attention.lines[0].rows[0, :9].tolist() == [0, 1, 2, 3, 4, 5, 0, 6, 7]


def test_going_on_from_a_cache_gives_the_states_of_the_packed_pass():
    """Patients of different lengths, extended in uneven pieces, and after some of them have left."""
    torch.manual_seed(2)
    trunk = TokenTrunk(16, layers=2, heads=4, dropout=0.0).eval()
    stream = stream_of(two_patients(), 9, torch.arange(4))
    rows = torch.randn(8, 16)
    with torch.no_grad():
        whole = trunk(rows, stream)
        first, second = torch.arange(6), torch.tensor([0, 6, 7])
        states, cache = trunk.extend(rows[torch.stack([first[:2], second[:2]])], None)
        assert torch.allclose(states[:, 1], whole[[1, 6]], atol=1e-5)
        cache.lengths = torch.tensor([2, 2])
        draft = cache.draft()
        trunk.extend(torch.randn(2, 3, 16), draft)  # scratch that is thrown away
        states, cache = trunk.extend(rows[torch.stack([first[2:4], torch.stack([second[2], second[2]])])], cache)
        assert torch.allclose(states[0], whole[first[2:4]], atol=1e-5)
        assert torch.allclose(states[1, 0], whole[second[2]], atol=1e-5)
        cache.lengths = torch.tensor([4, 3])
        alone = cache.keep(torch.tensor([0]))
        states, _ = trunk.extend(rows[first[4:6]][None], alone)
        assert torch.allclose(states[0], whole[first[4:6]], atol=1e-5)


def test_a_cache_grows_when_it_is_full():
    trunk = TokenTrunk(8, layers=1, heads=2, dropout=0.0).eval()
    with torch.no_grad():
        _, cache = trunk.extend(torch.randn(3, 60, 8), None)
        cache.lengths = torch.tensor([60, 2, 30])
        states, cache = trunk.extend(torch.randn(3, 40, 8), cache)
    assert states.shape == (3, 40, 8)
    assert cache.keys[0].shape[1] >= 100
