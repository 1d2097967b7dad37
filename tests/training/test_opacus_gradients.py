"""Patients' cut gradients against Opacus's per-sample gradients, for every network that can be trained privately.

Opacus is attached to the layers that it knows and that a network calls, and sees one patient's rows at a time: the sum
of its samples is the patient's gradient. It has no samples of parameters that are used without a layer's own forward
call; there the reference is autograd on the one patient. Which parameters those are stands in `NETWORKS`, and is held.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adapcla.data import Cohort
from adapcla.generation import generator_for
from adapcla.generation.fitting import initial_model, objective_for
from adapcla.generation.model import seen_records
from adapcla.io import simulator as planted
from adapcla.models.base import Moment, Objective
from adapcla.models.batch import Records
from adapcla.training.ghost_clipping import applies, losses_and_norms, own_starts
from adapcla.training.privacy import PrivateStep
from adapcla.training.settings import METHODS

if importlib.util.find_spec("opacus") is None:
    pytest.skip("opacus is not installed: pip install 'adapcla[dp]'", allow_module_level=True)

from opacus.grad_sample import GradSampleModule
from opacus.layers import DPLSTM

#: Tables of codes, start vectors, places and output biases: every network uses them without calling a layer.
_ALWAYS = r"(.*\.)?(own|parts\.\d)|embedding\.(start|place)|(head\.)?bias"
#: A method, changes of its settings, and what else Opacus has no samples of.
NETWORKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "independent": ("adapcla", {}, ""),
    "halo": ("halo", {}, r"|head\.(history\..*|history_to_code\.weight|.*\.(before|corner)\.\d)"),
    "lstm": ("lstm", {}, ""),
    "gpt": ("gpt", {}, r"|start|opening|closing|visit_number|place"),
    "shrunk": (
        "tailwise",
        {"prior": False, "damping": 0.0, "calibration_rounds": 0},
        r"|start|opening|closing|visit_number|place|copy_head|(input|output)\.family_vector",
    ),
    "eva": ("eva", {}, ""),
}
_SMALL = {"width": 16, "layers": 1, "heads": 2, "dropout": 0.0}
_MOMENT = Moment(1, 10, 1)


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate(patients=14, codes=60, seed=3)


def prepared(world: Cohort, name: str) -> tuple[Objective, Records]:
    """A network whose weights have left their beginning, where many gradients would be zero; always the same."""
    method, changes, _ = NETWORKS[name]
    known = METHODS[method].settings.architecture.model_dump()
    settings = generator_for(
        method, **{key: value for key, value in _SMALL.items() if key in known}, **changes
    ).settings
    objective = objective_for(initial_model(settings, world))
    stream = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in objective.modules.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=stream) * 0.1)
    objective.modules.train()
    return objective, replace(seen_records(settings, world, objective.modules.order), context=7)  # type: ignore[arg-type]


def watched_by_opacus(network: nn.Module) -> None:
    """Opacus's hooks on the layers that it knows; LSTMs become those that it can look into, with the same weights."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.LSTM:
                shape = child.input_size, child.hidden_size, child.num_layers
                inside = DPLSTM(*shape, batch_first=True, bidirectional=child.bidirectional)
                inside.load_state_dict(child.state_dict())
                setattr(parent, name, inside)
    known = (*GradSampleModule.GRAD_SAMPLERS, nn.ConvTranspose1d)
    layers = [layer for layer in network.modules() if type(layer) in known]
    GradSampleModule(nn.ModuleList(layers), strict=False, loss_reduction="sum")


def plain_name(name: str) -> str:
    """The name of a parameter in torch's LSTM, from that in Opacus's."""
    return re.sub(r"l(\d+)(_reverse)?\.(ih|hh)\.(weight|bias)$", r"\4_\3_l\1\2", name)


def reference(objective: Objective, records: Records, patient: int) -> tuple[dict[str, Tensor], set[str]]:
    """The patient's gradient by the name of the parameter, and the names that Opacus has no samples of."""
    named = list(objective.modules.named_parameters())
    for _, parameter in named:
        parameter.grad = parameter.grad_sample = None
    objective.loss(records.batch(np.array([patient])), _MOMENT).backward()
    gradient, without = {}, set()
    for name, parameter in named:
        if parameter.grad_sample is not None:
            gradient[plain_name(name)] = parameter.grad_sample.sum(0)
        else:
            without.add(plain_name(name))
            gradient[plain_name(name)] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return gradient, without


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_sum_of_cut_gradients_is_that_of_opacus(world: Cohort, name: str) -> None:
    """At a bound that cuts half of the patients; where norms alone are computed, they are the same too."""
    everyone = np.arange(world.n_patients)
    objective, records = prepared(world, name)
    watched_by_opacus(objective.modules)
    torch.manual_seed(0)
    alone = [reference(objective, records, int(patient)) for patient in everyone]
    norms = torch.tensor([float(torch.cat([g.reshape(-1).double() for g in one.values()]).norm()) for one, _ in alone])
    clip = float(norms.median())

    objective, records = prepared(world, name)
    parameters = dict(objective.modules.named_parameters())
    torch.manual_seed(0)
    step = PrivateStep(secret=1, noise=1.0, clip=clip, rate=1.0, batch_size=len(everyone))
    step.accumulate(objective, records, everyone, _MOMENT, list(parameters.values()))
    for key, parameter in parameters.items():
        expected = sum(one[key] * min(1.0, clip / float(norm)) for (one, _), norm in zip(alone, norms, strict=True))
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-4, atol=1e-4 * float(expected.norm()) + 1e-6, msg=key
        )
    without = set.intersection(*(names for _, names in alone))
    assert without == {key for key in parameters if re.fullmatch(_ALWAYS + NETWORKS[name][2], key)}
    if applies(objective, list(parameters.values())):
        found = losses_and_norms(objective, own_starts(records.batch(everyone)), _MOMENT)[1]
        torch.testing.assert_close(found.float(), norms, rtol=1e-4, atol=0)


def test_every_family_that_can_be_trained_privately_is_compared() -> None:
    private = {
        row.settings.architecture.family for row in METHODS.values() if not row.settings.family.traits.not_private
    }
    assert private == {METHODS[method].settings.architecture.family for method, _, _ in NETWORKS.values()}


def test_norms_alone_are_computed_for_the_independent_head_and_no_other(world: Cohort) -> None:
    by_norms = {name for name in NETWORKS if applies(*_with_parameters(world, name))}
    assert by_norms == {"independent"}


def _with_parameters(world: Cohort, name: str) -> tuple[Objective, list[nn.Parameter]]:
    objective, _ = prepared(world, name)
    return objective, list(objective.modules.parameters())
