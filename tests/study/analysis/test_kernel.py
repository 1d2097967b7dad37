"""The kernel by hand, and what it predicts."""

from __future__ import annotations

import copy

import numpy as np
import polars as pl
import pytest
import torch
from torch.func import functional_call, vjp

from adapcla.errors import UsageError
from adapcla.generation.model import seen_records
from adapcla.study.analysis.kernel import (
    GROUPS,
    LabelKernel,
    NextLogits,
    correlation_table,
    eigenvalue_table,
    label_kernel,
    label_kernels,
    parameters_of,
    similarity_table,
)
from adapcla.study.analysis.probes import ProbeKind, next_visits
from adapcla.study.analysis.run import observed_fit


# ---- kernel --------------------------------------------------------------------------------------------------
@pytest.fixture
def case(probed, probes):
    """A real network in double precision and the batch of its first context."""
    network = copy.deepcopy(probed.generator.model.network).double()
    batch = seen_records(probed.generator.settings, probes.histories).batch(np.array([0]))
    return network, batch


def test_the_logits_are_those_of_the_network(case, probed, probes):
    network, batch = case
    codes = np.array([7, 3, 150])
    mine = NextLogits(network, batch, codes)()
    order = network.order
    encoded = seen_records(probed.generator.settings, probes.histories, order).batch(np.array([0]))
    assert torch.allclose(mine, network.next_logits(encoded)[0, order.encode(codes)])


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


def first_order_errors(network, batch, present, scaffold, rates, group="all"):
    """‖Δz + η K (σ(z̃) − y)‖ for each rate η: one plain gradient step on the next visit of one context, all codes."""
    codes = np.arange(len(scaffold))
    function = NextLogits(network, batch, codes)
    weights = parameters_of(function)
    logits, pull = vjp(lambda held: functional_call(function, held, ()), weights)[:2]
    target = torch.zeros_like(logits)
    target[torch.from_numpy(present)] = 1.0
    residual = torch.sigmoid(logits + torch.from_numpy(scaffold).to(logits)) - target
    (gradient,) = pull(residual)
    moved = label_kernel(network, batch, codes, group).matrix @ residual.double().numpy()
    errors = []
    for rate in rates:
        after = functional_call(function, {name: p - rate * gradient[name] for name, p in weights.items()}, ())
        errors.append(np.linalg.norm((after - logits).detach().double().numpy() + rate * moved))
    return np.array(errors)


def test_the_update_holds_to_first_order(case, probed):
    """Δz = −η K (σ(z̃) − y) + O(η²): over three rates the error falls with slope 2 on logarithmic scales."""
    network, batch = case
    rates = np.array([1e-2, 1e-3, 1e-4])
    scaffold = 0.5 * probed.trajectory.bias
    errors = first_order_errors(network, batch, np.array([3, 17]), scaffold, rates)
    slopes = np.diff(np.log(errors)) / np.diff(np.log(rates))
    assert slopes == pytest.approx([2.0, 2.0], abs=0.05)


def test_a_kernel_with_parts_missing_is_not_the_update(case, probed):
    """The check can fail: without the codes' own output rows the error is of first order."""
    network, batch = case
    rates = np.array([1e-3, 1e-4])
    none = np.zeros(len(probed.trajectory.bias))
    errors = first_order_errors(network, batch, np.array([3]), none, rates, "shared")
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


# ---- coupling ------------------------------------------------------------------------------------------------
def test_every_probe_has_a_similarity_and_a_gain(probed, probes):
    table = similarity_table(probes, probed.trajectory, probed.kernels)
    assert len(table) == 2 * len(probes.probes)
    assert table["similarity"].is_between(-1.0000001, 1.0000001).all()
    gains = table.filter(pl.col("group") == "all").sort("probe")["final_gain"].to_numpy()
    assert gains == pytest.approx(probed.trajectory.measures()["final_gain"])


def test_the_kernels_are_those_of_the_untrained_network(world, probes, probed):
    """A fit whose learning rate is next to nothing ends where it began, so its kernel is the one seen at first."""
    from tests.study.analysis.conftest import SMALL

    still = observed_fit(
        world.train,
        world.valid,
        probes,
        changes={**SMALL, "passes": 0.2, "learning_rate": 1e-12, "weight_decay": 0, "table_decay": 0},
        looks=2,
    )
    batch = seen_records(still.generator.settings, probes.histories).batch(np.array([0]))
    related = probes.code[np.intersect1d(probes.first(1), probes.of_kind(ProbeKind.RELATED_RARE))]
    mine = next(k for k in probed.kernels if k.context == 0 and k.group == "all")
    again = label_kernel(still.generator.model.network, batch, related).smallest_eigenvalue
    if len(related) > 1:
        assert mine.smallest_eigenvalue == pytest.approx(again, rel=1e-3)
    else:
        assert np.isnan(mine.smallest_eigenvalue)


def test_contexts_with_one_related_code_have_no_eigenvalue(probed, probes):
    table = eigenvalue_table(probes, probed.trajectory, probed.kernels)
    related = probes.context[probes.of_kind(ProbeKind.RELATED_RARE)]
    several = [c for c in range(probes.n_contexts) if (related == c).sum() > 1]
    assert sorted(set(table["context"])) == several
    assert (table["smallest_eigenvalue"] > 0).all()


def test_a_planted_correlation_is_found_and_noise_is_not():
    draw = np.random.default_rng(1)
    n = 60
    similarity = draw.normal(size=n)
    similarities = pl.DataFrame(
        {
            "group": ["all"] * n,
            "context": np.arange(n),
            "kind": ["wrong"] * n,
            "similarity": similarity,
            "final_gain": similarity + 0.2 * draw.normal(size=n),
        }
    )
    eigenvalues = pl.DataFrame(
        {
            "group": ["all"] * n,
            "context": np.arange(n),
            "smallest_eigenvalue": draw.normal(size=n) + 50,
            **{name: draw.normal(size=n) for name in ("auc", "mean_gain", "final_gain")},
        }
    )
    table = correlation_table(similarities, eigenvalues, (5, n))
    found = {(r["contexts"], r["x"], r["y"], r["kind"]): r for r in table.to_dicts()}
    assert found[n, "similarity", "final_gain", "all"]["verdict"] == "as the theory says"
    assert found[5, "similarity", "final_gain", "all"]["verdict"] == "too few to say"
    assert found[n, "smallest_eigenvalue", "auc", "all"]["verdict"] == "not shown"
    assert found[n, "smallest_eigenvalue", "auc", "all"]["spread_of_x"] < 0.05
