"""Random numbers and codes of networks with a latent."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from adapcla.models.draws import Noise, normal


def test_normal_numbers_are_normal_and_keyed():
    noise = Noise(4, np.arange(2000), 0)
    numbers = normal(noise, 3, channel=5)
    assert stats.kstest(numbers.numpy().ravel(), "norm").pvalue > 1e-3
    assert torch.equal(normal(noise.keep(np.array([7])), 3, channel=5)[0], numbers[7])
