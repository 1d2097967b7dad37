"""`adapcla control`: both modes, a table, a figure, one JSON object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapcla.cli import app
from adapcla.generators import generator_for
from adapcla.generators import steering as closed_loop
from adapcla.sources import planted


def test_requested_and_achieved_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "PILOT", 400)
    monkeypatch.setattr(closed_loop.closed_loop, "__defaults__", (400,))
    train, valid, _ = planted.simulate(patients=400, codes=60, seed=1).split(seed=4)
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=1, batch_size=64).fit(train, valid)
    generator.save(tmp_path / "model")
    planted.simulate(patients=400, codes=60, seed=2, population="shifted").save(tmp_path / "other")
    words = ["--quiet", "control", str(tmp_path / "model"), "--toward", str(tmp_path / "other"), "--patients", "300"]
    result = CliRunner().invoke(app, [*words, "--seed", "1", "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout.splitlines()[-1])
    for mode in ("paper", "calibrated"):
        assert {"inside_sampling_error", "mae", "max_gap"} <= set(summary[mode])
    assert summary["calibrated"]["inside_sampling_error"] >= 0.9
    rows = (tmp_path / "out" / "control.csv").read_text().splitlines()
    assert rows[0] == "code,source,requested,achieved_paper,achieved_calibrated" and len(rows) == 61
    assert (tmp_path / "out" / "control.png").stat().st_size > 5000
