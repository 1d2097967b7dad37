from __future__ import annotations

import numpy as np
import polars as pl

from adapcla.report.figures.bound import bound_against_error, endpoint_deviation
from adapcla.scaffold import schedule
from adapcla.study.analysis.internalization import ExactSetting, flow


def test_the_error_lies_under_both_bounds_in_the_drawing():
    setting = ExactSetting(np.eye(2), np.array([-1.0, -2.0]), np.ones(2), np.array([-1.0, -1.0]), 5.0)
    runs = [flow(setting, schedule(name), 21) for name in ("base", "cosine", "fast", "slow", "linear")]
    figure, caption = bound_against_error(runs)
    error, sharp, theorem = (np.asarray(line.get_ydata()) for line in figure.axes[0].get_lines()[:3])
    assert (error <= sharp * (1 + 1e-6)).all() and (sharp <= theorem * (1 + 1e-6)).all()
    assert "base" in figure.axes[0].get_title(loc="left") and "never crossed" in caption
    assert not figure.axes[5].axison


def test_endpoints_are_means_over_seeds():
    table = pl.DataFrame(
        [
            {"schedule": "base", "seed": seed, "stratum": s, "deviation": 4.0 + seed, "share_internalised": 0.1}
            for seed in (1, 3)
            for s in ("all", "head", "mid", "tail")
        ]
    )
    figure, _ = endpoint_deviation(table)
    assert figure.axes[0].get_lines()[0].get_ydata()[0] == 6.0
