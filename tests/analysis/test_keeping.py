from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from adapcla.analysis.keeping import open_trajectory, save_trajectory, write_table
from adapcla.analysis.trajectories import summary_table
from adapcla.errors import ExistsError, InputError


def test_a_table_is_written_twice_and_missing_numbers_are_missing(tmp_path):
    write_table(pl.DataFrame({"x": [1.0, float("nan")]}), tmp_path / "deep" / "told", {"how": "by hand"})
    assert pl.read_csv(tmp_path / "deep" / "told.csv")["x"].to_list() == [1.0, None]
    content = json.loads((tmp_path / "deep" / "told.json").read_text())
    assert content == {"notes": {"how": "by hand"}, "columns": ["x"], "rows": [{"x": 1.0}, {"x": None}]}


def test_a_trajectory_comes_back_and_gives_the_same_tables(tmp_path, probed, probes):
    save_trajectory(tmp_path / "t", probes, probed.trajectory)
    again, path = open_trajectory(tmp_path / "t")
    assert again.probes == probes.probes
    assert np.array_equal(path.log_p, probed.trajectory.log_p)
    assert np.array_equal(path.truth, probed.trajectory.truth)
    assert summary_table(again, path, (5, 12)).equals(summary_table(probes, probed.trajectory, (5, 12)))


def test_no_patient_is_written(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    names = {path.name for path in folder.iterdir()}
    assert "patient_starts.npy" not in names and "codes.npy" not in names
    assert open_trajectory(folder)[0].contexts is None


def test_a_populated_folder_is_refused_and_a_damaged_one_named(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    with pytest.raises(ExistsError):
        save_trajectory(folder, probes, probed.trajectory)
    (folder / "log_p.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match="log_p"):
        open_trajectory(folder)
    with pytest.raises(InputError):
        open_trajectory(tmp_path / "nowhere")
