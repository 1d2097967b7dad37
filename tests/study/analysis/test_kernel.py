from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from adapcla.errors import UsageError
from adapcla.generation.model import seen_records
from adapcla.study.analysis.histories import next_visits
from adapcla.study.analysis.kernel import (
    GROUPS,
    LabelKernel,
    NextLogits,
    first_order_errors,
    label_kernel,
    label_kernels,
    parameters_of,
)


@pytest.fixture
def case(probed, probes):
    """A real network in double precision and the batch of its first context."""
    network = copy.deepcopy(probed.generator.model.network).double()
    batch = seen_records(probed.generator.settings, probes.histories).batch(np.array([0]))
    return network, batch


def test_the_logits_are_those_of_the_network(case, probed):
    network, batch = case
    codes = np.array([7, 3, 150])
    mine = NextLogits(network, batch, codes)()
    assert torch.allclose(mine, network.next_logits(batch)[0, codes])


def test_the_kernel_is_the_product_of_gradients(case):
    """Against plain backward passes, one code at a time."""
    network, batch = case
    codes = np.array([5, 9, 20])
    function = NextLogits(network, batch, codes)
    gradients = []
    for i in range(3):
        found = torch.autograd.grad(function()[i], list(function.parameters()), allow_unused=True)
        gradients.append(torch.cat([g.reshape(-1) for g in found if g is not None]))
    stacked = torch.stack(gradients)
    assert np.allclose(label_kernel(network, batch, codes).matrix, (stacked @ stacked.t()).numpy())


def test_chunks_change_nothing(case, monkeypatch):
    network, batch = case
    codes = np.array([5, 9, 20, 31, 40])
    whole = label_kernel(network, batch, codes).matrix
    monkeypatch.setattr("adapcla.study.analysis.kernel.HELD", 1)
    assert np.allclose(label_kernel(network, batch, codes).matrix, whole)


def test_groups_add_up(case):
    """All parameters are those that codes share and each code's own output row and bias."""
    network, batch = case
    codes = np.array([5, 9, 20])
    found = label_kernels(network, batch, codes, ("all", "input", "trunk", "output", "shared"))
    parts = sum(found[group].matrix for group in ("input", "trunk", "output"))
    assert np.allclose(found["all"].matrix, parts)
    own = found["all"].matrix - found["shared"].matrix
    assert np.allclose(own, np.eye(3) * own[0, 0])


def test_an_independent_head_lifts_every_eigenvalue_by_the_same_amount(case):
    """∂z_c/∂W_c is the state h, so that K = (‖h‖² + 1) I + what is shared: λ_min cannot come near 0."""
    network, batch = case
    codes = np.array([5, 9, 20, 44])
    found = label_kernels(network, batch, codes)
    own = found["all"].smallest_eigenvalue - found["shared"].smallest_eigenvalue
    state = network.states(NextLogits(network, batch, codes).batch)[-1].detach()
    assert own == pytest.approx(float((state**2).sum()) + 1)


def test_the_update_holds_to_first_order(case, probed):
    """Δz = −η K (σ(z̃) − y) + O(η²): over three rates the error falls with slope 2 on logarithmic scales."""
    network, batch = case
    rates = np.array([1e-2, 1e-3, 1e-4])
    scaffold = 0.5 * probed.trajectory.bias
    errors = first_order_errors(network, batch, np.array([3, 17]), scaffold, rates)
    slopes = np.diff(np.log(errors)) / np.diff(np.log(rates))
    assert slopes == pytest.approx([2.0, 2.0], abs=0.05)


def test_a_kernel_with_parts_missing_is_not_the_update(case, probed, monkeypatch):
    """The check can fail: without the codes' own output rows the error is of first order."""
    network, batch = case
    rates = np.array([1e-3, 1e-4])
    none = np.zeros(len(probed.trajectory.bias))
    monkeypatch.setattr(
        "adapcla.study.analysis.kernel.label_kernel", lambda *asked: label_kernels(*asked, ("shared",))["shared"]
    )
    errors = first_order_errors(network, batch, np.array([3]), none, rates)
    assert np.log10(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.05)


def test_cosines_and_subsets():
    kernel = LabelKernel(np.array([2, 5, 8]), np.array([[4.0, 0, 2], [0, 1, 0], [2, 0, 4]]))
    assert kernel.cosine[0, 2] == 0.5
    assert kernel.among(np.array([8, 2])).matrix.tolist() == [[4, 2], [2, 4]]
    assert kernel.among(np.array([8, 2])).smallest_eigenvalue == pytest.approx(2.0)
    assert kernel.similarity(2, np.array([5, 8])) == pytest.approx(0.25)
    assert np.isnan(kernel.similarity(2, np.array([2])))


def test_wrong_questions_are_refused(case, world, probed):
    network, batch = case
    with pytest.raises(UsageError, match="parameter group"):
        label_kernel(network, batch, np.array([1]), "everything")
    both = seen_records(probed.generator.settings, next_visits(world.test).histories).batch(np.arange(2))
    with pytest.raises(UsageError, match="one context"):
        label_kernel(network, both, np.array([1]))


def test_every_group_names_parameters(case):
    network, batch = case
    function = NextLogits(network, batch, np.array([1]))
    assert all(parameters_of(function, group) for group in GROUPS)
