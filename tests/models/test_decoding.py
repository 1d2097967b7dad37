"""Random numbers and codes of networks with a latent."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from adapcla.models.decoding import decoded, normal
from adapcla.models.draws import Noise


def test_normal_numbers_are_normal_and_keyed():
    noise = Noise(4, np.arange(2000), 0)
    numbers = normal(noise, 3, channel=5)
    assert stats.kstest(numbers.numpy().ravel(), "norm").pvalue > 1e-3
    assert torch.equal(normal(noise.keep(np.array([7])), 3, channel=5)[0], numbers[7])


def test_a_threshold_takes_what_is_likelier_than_not_and_never_nothing():
    logits = torch.tensor([[0.1, -0.1, 3.0], [-5.0, -1.0, -2.0]])
    who, codes = decoded(logits, "threshold", Noise(1, np.arange(2), 0))
    assert (who.tolist(), codes.tolist()) == ([0, 0, 1], [0, 2, 1])


def test_drawing_has_the_chances_of_the_logits():
    logits = torch.tensor([[0.0, -1.0]]).expand(4000, -1)
    _, codes = decoded(logits, "bernoulli", Noise(1, np.arange(4000), 0))
    share = np.bincount(codes, minlength=2) / 4000
    assert np.allclose(share, [0.5, 0.2689], atol=0.03)
