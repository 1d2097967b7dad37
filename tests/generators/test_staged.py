"""A first stage that is trained, used and told."""

from __future__ import annotations

import pytest
import torch

from adapcla.generators.methods import generator_for
from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.settings import Settings
from adapcla.generators.staged import FIRST, StagedGenerator, first_stage

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 2}


def test_the_first_stage_is_static_and_otherwise_the_same():
    first = first_stage(Settings(tempering=0.2, positive_weight=1.5, first_stage="static"))
    assert (first.schedule, first.bias_at_inference, first.first_stage) == ("constant", True, "")
    assert (first.tempering, first.positive_weight) == (0.2, 1.5)


def test_the_second_stage_begins_with_the_weights_of_the_first(parts, tmp_path):
    class Beginning:
        looks = 2
        weights: dict[str, torch.Tensor] | None = None

        def look(self, modules, moment):
            if moment.step == 0:
                self.weights = {name: value.clone() for name, value in modules.state_dict().items()}

    seen = Beginning()
    staged = generator_for("adapcla-release", **SMALL)
    assert isinstance(staged, StagedGenerator)
    staged.fit(parts.train, parts.valid, folder=tmp_path, observers=[seen])
    alone = NeuralGenerator(first_stage(staged.settings)).fit(parts.train, parts.valid)
    assert seen.weights is not None
    for name, value in alone.fitted.modules.state_dict().items():
        assert torch.equal(value, seen.weights[name]), name
    assert (tmp_path / FIRST / "journal.jsonl").is_file()
    facts = staged.fitted.facts
    assert facts["passes"] == pytest.approx(2 * facts["first stage"]["passes"])
