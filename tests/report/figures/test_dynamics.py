from __future__ import annotations

import polars as pl
import pytest

from adapcla.report.figures.dynamics import code_trend, probe_dynamics


def curves(truth: float | None) -> pl.DataFrame:
    rows = []
    for kind in ("related_rare", "unrelated_rare", "wrong", "all tail", "all mid", "all head"):
        for step in range(5):
            rows.append(
                {
                    "schedule": "base",
                    "kind": kind,
                    "oracle": None if kind.startswith("all") else -0.7,
                    "truth": None if kind.startswith("all") else truth,
                    "step": step,
                    "progress": step / 4,
                    "weight": 1 - step / 4,
                    "log_p": -6.0 + step,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def test_each_kind_is_a_line_and_the_oracle_is_where_the_table_says():
    figure, caption = probe_dynamics(curves(-5.0))
    probes = figure.axes[1]
    drawn = {line.get_label(): line for line in probes.get_lines()}
    assert {"related rare", "unrelated rare", "wrong"} <= set(drawn)
    assert list(drawn["wrong"].get_ydata()) == [-6, -5, -4, -3, -2]
    assert any(
        line.get_linestyle() == "--" and line.get_ydata()[0] == -0.7
        for line in probes.get_lines()
        if len(line.get_ydata())
    )
    assert "base" in caption and "dotted" in caption


def test_gains_start_at_zero_and_no_truth_is_drawn_where_none_is_known():
    figure, caption = probe_dynamics(curves(None))
    gains = {line.get_label(): list(line.get_ydata()) for line in figure.axes[2].get_lines()}
    assert gains["related rare"] == [0, 1, 2, 3, 4]
    assert "dotted" not in caption


def test_a_table_without_its_columns_is_an_error():
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        probe_dynamics(pl.DataFrame({"kind": ["wrong"]}))


def test_the_trend_of_one_code():
    trend = pl.DataFrame({"progress": [0.0, 1.0], "weight": [1.0, 0.0], "log_p": [-4.0, -3.0]})
    figure, caption = code_trend(trend, "A00 something")
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [-4, -3]
    assert caption.startswith("A00 something")
