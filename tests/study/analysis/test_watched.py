"""Watched fits, and what is kept of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.errors import ExistsError, InputError
from adapcla.study.analysis.kernel import eigenvalue_table, similarity_table
from adapcla.study.analysis.probes import summary_table
from adapcla.study.analysis.watched import open_trajectory, probed_fit, save_trajectory


# ---- probed fit ----------------------------------------------------------------------------------------------
def test_a_watched_fit_uses_its_whole_budget(world, probes):
    """A learning rate that makes everything worse would stop an ordinary fit early."""
    from tests.study.analysis.conftest import SMALL

    changes = {**SMALL, "passes": 2, "learning_rate": 1.0, "validations": 30, "schedule": "none"}
    run = probed_fit(world.train, world.valid, probes, changes=changes, looks=3)
    assert run.generator.outcome_.steps == run.generator.outcome_.n_steps
    assert run.kernels == ()
    assert all(torch.isfinite(p).all() for p in run.generator.model.network.parameters())


# ---- saved trajectory ----------------------------------------------------------------------------------------
def test_a_trajectory_comes_back_and_gives_the_same_tables(tmp_path, probed, probes):
    save_trajectory(tmp_path / "t", probes, probed.trajectory)
    again, path, kernels = open_trajectory(tmp_path / "t")
    assert kernels == ()
    assert again.probes == probes.probes
    assert np.array_equal(path.log_p, probed.trajectory.log_p)
    assert np.array_equal(path.truth, probed.trajectory.truth)
    assert summary_table(again, path, (5, 12)).equals(summary_table(probes, probed.trajectory, (5, 12)))


def test_kernels_come_back_and_give_the_same_tables(tmp_path, probed, probes):
    save_trajectory(tmp_path / "t", probes, probed.trajectory, probed.kernels)
    again = open_trajectory(tmp_path / "t")
    assert len(again.kernels) == len(probed.kernels) > 0
    for table in (similarity_table, eigenvalue_table):
        assert table(*again).equals(table(probes, probed.trajectory, probed.kernels))


def test_no_patient_is_written(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    names = {path.name for path in folder.iterdir()}
    assert "patient_starts.npy" not in names and "codes.npy" not in names
    assert open_trajectory(folder).probes.contexts is None


def test_a_populated_folder_is_refused_and_a_damaged_one_named(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    with pytest.raises(ExistsError):
        save_trajectory(folder, probes, probed.trajectory)
    (folder / "log_p.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match="log_p"):
        open_trajectory(folder)
    with pytest.raises(InputError):
        open_trajectory(tmp_path / "nowhere")
