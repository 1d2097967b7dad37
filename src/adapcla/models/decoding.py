"""How networks with a latent turn random numbers into codes: normal draws, and codes drawn or cut at one half."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from adapcla.models.contract import Drawn
from adapcla.models.draws import FIRST_CHANNEL, Noise, bernoulli_codes


def normal(noise: Noise, n: int, channel: int) -> Tensor:
    """Standard normal numbers (patients, n).

    >>> tuple(normal(Noise(1, np.arange(3), 0), 2, channel=5).shape)
    (3, 2)
    """
    return torch.from_numpy(ndtri(noise.uniform(n, channel))).float()


def decoded(logits: Tensor, decode: str, noise: Noise) -> Drawn:
    """(patient, code) pairs: drawn one by one, or those above one half (and never none, but the likeliest).

    >>> logits = torch.tensor([[2.0, -1.0, 1.0], [-3.0, -2.0, -4.0]])
    >>> who, codes = decoded(logits, "threshold", Noise(1, np.arange(2), 0))
    >>> who.tolist(), codes.tolist()
    ([0, 0, 1], [0, 2, 1])
    """
    if decode == "bernoulli":
        return bernoulli_codes(logits, None, noise, channel=FIRST_CHANNEL)
    taken = logits > 0
    none = ~taken.any(dim=1)
    taken[none.nonzero()[:, 0], logits[none].argmax(dim=1)] = True
    who, codes = taken.nonzero(as_tuple=True)
    return who.numpy().astype(np.int64), codes.numpy().astype(np.int64)
