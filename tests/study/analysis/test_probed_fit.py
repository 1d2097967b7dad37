from __future__ import annotations

import torch

from adapcla.study.analysis.probed_fit import probed_fit


def test_a_watched_fit_uses_its_whole_budget(world, probes):
    """A learning rate that makes everything worse would stop an ordinary fit early."""
    from tests.study.analysis.conftest import SMALL

    changes = {**SMALL, "passes": 2, "learning_rate": 1.0, "validations": 30, "schedule": "none"}
    run = probed_fit(world.train, world.valid, probes, changes=changes, looks=3)
    assert run.generator.outcome_.steps == run.generator.outcome_.n_steps
    assert run.kernels == ()
    assert all(torch.isfinite(p).all() for p in run.generator.model.network.parameters())
