from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.analysis.probing import probed_fit, schedule_study
from adapcla.analysis.trajectories import MEASURES


def test_schedules_share_their_start_and_their_steps(world, probes):
    from tests.analysis.conftest import SMALL

    study = schedule_study(
        world.train, world.valid, probes, ("fast", "slow", "none"), (1,), {**SMALL, "passes": 1}, looks=6
    )
    fast, slow = study.trajectories["fast"], study.trajectories["slow"]
    assert np.array_equal(fast.log_p[0], slow.log_p[0])
    assert fast.steps[-1] == slow.steps[-1]
    assert not np.array_equal(fast.log_p[-1], slow.log_p[-1])
    assert len(study.summary) == 3 * len(MEASURES)
    assert study.summary.filter(study.summary["schedule"] == "slow")["free_share"][0] == pytest.approx(0.3, abs=1e-6)
    assert set(study.explained["by"]) == {"free_share", "steepest"}
    assert len(study.endpoint) == 3 * 4


def test_a_watched_fit_uses_its_whole_budget(world, probes):
    """A learning rate that makes everything worse would stop an ordinary fit early."""
    from tests.analysis.conftest import SMALL

    changes = {**SMALL, "passes": 2, "learning_rate": 1.0, "validations": 30, "schedule": "none"}
    run = probed_fit(world.train, world.valid, probes, changes=changes, looks=3)
    assert run.generator.outcome_.steps == run.generator.outcome_.n_steps
    assert run.kernels == ()
    assert all(torch.isfinite(p).all() for p in run.generator.model.network.parameters())
