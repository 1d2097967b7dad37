"""Days between visits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.models.batch import pack
from adapcla.models.draws import Noise
from adapcla.models.layers import N_BUCKETS, drawn_gap, gap_nll


@pytest.mark.parametrize("bucket, low, high", [(0, 0, 0), (4, 4, 7), (N_BUCKETS - 1, 1461, 2920)])
def test_days_stay_in_their_bucket_and_fill_it(bucket, low, high):
    sure = torch.full((400, N_BUCKETS), -60.0)
    sure[:, bucket] = 60.0
    days = drawn_gap(sure, Noise(3, np.arange(400), 0))
    assert low <= days.min() and days.max() <= high
    assert len(np.unique(days)) > min(3, high - low) or low == high


def test_only_later_visits_have_a_gap_to_explain():
    """Two patients, visits 2 and 1; the one later visit is certain of its bucket, so nothing is lost."""
    codes, sizes = np.array([0, 0, 0], dtype=np.int32), np.ones(3, dtype=np.int64)
    batch = pack(codes, sizes, np.array([2, 1]), np.zeros((2, 0), np.int64), np.array([0, 5, 0]))
    sure = torch.full((1, N_BUCKETS), -60.0)
    sure[0, 4] = 60.0
    assert gap_nll(sure, batch).tolist() == [0.0, 0.0, 0.0]
    assert float(gap_nll(torch.zeros(1, N_BUCKETS), batch)[1]) == pytest.approx(np.log(N_BUCKETS))
