"""The paper's method in one file of plain PyTorch computes what the package computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from adapcla.generation import generator_for
from adapcla.generation.fitting import initial_model
from adapcla.generation.model import Model
from adapcla.io.simulator import simulate
from adapcla.scaffold import Scaffold, schedule, shift

#: What a weight of the package is called in the example, by how its name begins.
NAMES = {
    "table.own": "codes",
    "embedding.start": "start",
    "embedding.place": "place",
    "embedding.norm.": "embedding_norm.",
    "trunk.layers.": "layers.",
    "trunk.norm.": "last_norm.",
    "head.table.own": "output",
    "head.bias": "bias",
    "going_on.": "going_on.",
}


@pytest.fixture(scope="module")
def example(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("minimal_adapcla", repository / "examples" / "minimal_adapcla.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pair(example: ModuleType) -> tuple[Model, torch.nn.Module, list[list[list[int]]], Tensor]:
    """An untrained model, the example with the same weights, the patients of both, and codes in the model's order."""
    cohort = simulate(patients=60, codes=60, seed=1)
    settings = {"width": 16, "layers": 2, "heads": 2, "use_days": False, "use_attributes": False}
    model = initial_model(generator_for("adapcla", **settings).settings, cohort)
    patients = [
        [cohort.codes_of(v).tolist() for v in range(cohort.patient_starts[p], cohort.patient_starts[p + 1])]
        for p in range(cohort.n_patients)
    ]
    ours = example.Network(example.prevalence(patients, 60), width=16)
    rank = model.network.state_dict()["rank_of_code"]
    weights = {}
    for name, value in model.network.state_dict().items():
        prefix = next((prefix for prefix in NAMES if name.startswith(prefix)), None)
        if prefix is not None:
            by_code = value[rank] if name in ("table.own", "head.table.own", "head.bias") else value
            weights[NAMES[prefix] + name[len(prefix) :]] = by_code
    ours.load_state_dict(weights)
    model.network.eval()
    return model, ours.eval(), patients, rank


def test_logits_and_loss_are_those_of_the_package(pair, example: ModuleType) -> None:
    model, ours, patients, _ = pair
    cohort = simulate(patients=60, codes=60, seed=1)
    batch = model.records(cohort).batch(np.arange(60))
    visits, real = example.multi_hot(patients, 60)
    last = real.sum(1).long()
    order = model.network.order
    theirs = model.network.next_logits(batch)[:, order.position_of]
    mine = ours(visits)[0][torch.arange(60), last]
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    bias = torch.as_tensor(Scaffold(cohort.prevalence()).bias).float()
    torch.testing.assert_close(example.scaffold(example.prevalence(patients, 60)), bias, atol=1e-5, rtol=1e-4)
    for added in (None, bias):
        loss = model.network.loss(batch, None if added is None else order.arrange(added))
        torch.testing.assert_close(ours.loss(patients, 0.0 if added is None else added), loss, atol=1e-2, rtol=1e-5)
    alone = model.network.likelihood(batch).record
    each = torch.stack([ours.loss([patient]) for patient in patients]).double()
    torch.testing.assert_close(each, alone, atol=1e-3, rtol=1e-5)


def test_schedule_and_shift_are_those_of_the_package(pair, example: ModuleType) -> None:
    progress = np.linspace(0, 1, 21)
    assert [example.alpha(p) for p in progress] == pytest.approx([schedule("base").weight(p) for p in progress])
    one, other = simulate(80, 60, seed=1).prevalence(), simulate(80, 60, seed=2).prevalence()
    known = (one.share > 0) & (other.share > 0)
    mine = example.shift(torch.as_tensor(one.share), torch.as_tensor(other.share), 0.5).numpy()
    assert mine[known] == pytest.approx(shift(one, other, strength=0.5).delta[known], abs=1e-3)


def test_it_trains_samples_and_steers(example: ModuleType) -> None:
    found = example.main(n_patients=500, steps=200)
    assert found["gap to target, steered"] < 0.6 * found["gap to target, unsteered"]
    assert found["gap to training prevalence"] < 0.02


def test_it_is_short_and_imports_nothing_of_the_package(repository: Path) -> None:
    text = (repository / "examples" / "minimal_adapcla.py").read_text(encoding="utf-8")
    assert "import adapcla" not in text and "from adapcla" not in text and len(text.splitlines()) <= 230
