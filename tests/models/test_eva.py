"""The autoencoder: a bound, a latent that is drawn, and steps that do not see the future."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.models.eva import CausalConvolution, EvaArchitecture, EvaNetwork


def made(cohort, shape, **changes) -> EvaNetwork:
    torch.manual_seed(4)
    settings = EvaArchitecture(width=16, latent=4, layers=2, context=12, **changes)
    return EvaNetwork(settings, shape, cohort.prevalence()).eval()


def test_a_causal_convolution_sees_no_later_step():
    layer = CausalConvolution(4, dilation=2, dropout=0.0)
    steps = torch.randn(1, 4, 9)
    later = steps.clone()
    later[:, :, 6:] = 5.0
    assert torch.equal(layer(steps)[:, :, :6], layer(later)[:, :, :6])


def test_short_records_are_decoded_as_the_beginning_of_long_ones(world, shape):
    """Training unfolds only the steps that it needs; they are the steps that sampling unfolds."""
    network = made(world, shape)
    latent, known = torch.randn(5, 4), torch.randn(5, 16)
    for n in (1, 2, 5, 11):
        assert torch.allclose(network.steps(latent, known, n), network.steps(latent, known, 12)[:, :n], atol=1e-5)


def test_the_bound_is_reconstruction_plus_divergence(world, shape, records):
    """A latent that says nothing has no divergence; one that says something pays for it."""
    network = made(world, shape)
    batch = records.batch(np.arange(30))
    with torch.no_grad():
        network.to_latent.weight.zero_()
        network.to_latent.bias.zero_()
    silent = float(network.weighted_loss(batch, 0.0))
    assert float(network.weighted_loss(batch, 1.0)) == pytest.approx(silent, rel=1e-6)
    with torch.no_grad():
        network.to_latent.bias[:4] = 2.0  # four means of 2: ½·4·2² = 8 nats per patient
    difference = float(network.weighted_loss(batch, 1.0)) - float(network.weighted_loss(batch, 0.0))
    assert difference == pytest.approx(8.0 * 30, rel=1e-4)
    assert float(network.likelihood(batch).record.sum()) == pytest.approx(float(network.loss(batch, None)), rel=1e-5)


def test_patients_are_read_into_their_own_latent(world, shape, records):
    """Encoding two patients apart is encoding them together, whatever their lengths."""
    network = made(world, shape)
    together = network.encode(records.batch(np.arange(6)))[0]
    for patient in range(6):
        alone = network.encode(records.batch(np.array([patient])))[0]
        assert torch.allclose(alone[0], together[patient], atol=1e-5)


def test_a_patient_comes_from_its_noise_alone(world, shape, starts):
    network = made(world, shape)
    attributes, noise = starts(8)
    some = np.array([6, 2])
    whole, few = network.begin(attributes, noise), network.begin(attributes[some], noise.keep(some))
    assert torch.allclose(whole.steps[some], few.steps, atol=1e-5)
    assert torch.equal(network.select(whole, some).steps, whole.steps[some])
