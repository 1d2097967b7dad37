"""MEDS-tab, with stand-ins for its programs."""

from __future__ import annotations

import polars as pl
import pytest


@pytest.mark.parametrize("static", [True, False])
def test_its_programs_run_in_order_and_static_features_only_where_there_are_any(script, folder, monkeypatch, static):
    (folder / "subject" / "data" / "train").mkdir(parents=True)
    times = pl.Series("time", [None if static else 1, 2], dtype=pl.Int64)
    pl.DataFrame({"time": times}).write_parquet(folder / "subject" / "data" / "train" / "0.parquet")
    ran = []

    def run(command, check, cwd):
        ran.append((command[0].name, command[1:]))
        (folder / "tabular").mkdir(exist_ok=True)
        pl.DataFrame({"code": ["A", "B"]}).write_parquet(folder / "tabular" / "codes.parquet")
        (folder / "tabular" / f"{len(ran)}.npz").touch()

    judge = script("meds_tab_features.py")
    monkeypatch.setattr(judge.subprocess, "run", run)
    steps = [
        "meds-tab-describe",
        *(["meds-tab-tabularize-static"] if static else []),
        "meds-tab-tabularize-time-series",
    ]
    assert judge.verdicts(folder) == {"codes described": 2, "feature files": len(steps)}
    assert [name for name, _ in ran] == steps
    assert any("static/present" in word for word in ran[-1][1]) == static
