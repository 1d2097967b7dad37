"""Pairs that are kept leave the house without a count that is too small to be told."""

from __future__ import annotations

import torch

from adapcla.disclosure import MIN_COUNT
from adapcla.models.kept_pairs import KeptPairs
from adapcla.models.pair_counts import N_COLUMNS, count_band


def test_small_counts_are_one_band_for_others_and_columns_stay() -> None:
    counts = torch.tensor([3, MIN_COUNT - 1, MIN_COUNT, 400])
    pairs = KeptPairs(4, least_patients=3)
    pairs.cell = (count_band(counts) * N_COLUMNS + torch.tensor([5, 6, 7, 8])).int()
    settled = pairs.settled()["cell"]
    assert (settled % N_COLUMNS).tolist() == [5, 6, 7, 8]
    row = settled // N_COLUMNS
    assert row[0] == row[1] < row[2] and row[2:].tolist() == count_band(counts[2:]).tolist()


def test_as_many_pairs_fit_in_as_are_asked_for() -> None:
    assert KeptPairs(7, least_patients=3).n_pairs == 7 == len(KeptPairs(7, 3).state_dict()["cell"])
