"""The days between visits: a bucket is learned, a day in it is drawn."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from adapcla.models.batch import Batch
from adapcla.models.draws import Noise, categorical
from adapcla.models.layers import GAP_EDGES, gap_bucket

#: Longest gap that the open last bucket is drawn up to, in days.
_LONGEST_GAP = 2920
N_BUCKETS = len(GAP_EDGES) + 1


def drawn_gap(logits: Tensor, noise: Noise) -> NDArray[np.int64]:
    """Days until the next visit for each patient, from rows of bucket logits: a bucket, then a day in it.

    >>> sure = torch.full((1, N_BUCKETS), -50.0).index_fill(1, torch.tensor([4]), 50.0)
    >>> 4 <= int(drawn_gap(sure, Noise(1, np.arange(1), 0))[0]) <= 7
    True
    """
    bucket = categorical(logits, noise, channel=1)
    lows = np.array([0, *(edge + 1 for edge in GAP_EDGES)])
    highs = np.array([*GAP_EDGES, _LONGEST_GAP])
    spread = noise.uniform(1, channel=3)[:, 0] * (highs - lows + 1)[bucket]
    return lows[bucket] + spread.astype(np.int64)


def gap_nll(logits_of_later: Tensor, batch: Batch) -> Tensor:
    """(visits,) of the days before each visit, 0 for first visits; logits are given for the later visits, in order."""
    later = (batch.position > 0).nonzero()[:, 0]
    nll = F.cross_entropy(logits_of_later, gap_bucket(batch.gap[later]), reduction="none")
    return torch.zeros(batch.n_visits).index_copy(0, later, nll)
