from __future__ import annotations

import polars as pl

from adapcla.report.figures.schedules import schedule_comparison


def tables(share: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [
        {"schedule": name, "free_share": free, "measure": measure, "mean": free, "low": free - 0.1, "high": free + 0.1}
        for name, free in (("slow", 0.3), ("fast", 0.7), ("ramp:0.3,0.4", 0.65))
        for measure in ("final_gain", "auc", "mean_gain")
    ]
    explained = [{"measure": m, "by": "free_share", "between": share} for m in ("auc", "mean_gain")]
    return pl.DataFrame(rows), pl.DataFrame(explained)


def test_schedules_are_named_and_the_explained_share_is_told():
    figure, caption = schedule_comparison(*tables(0.97))
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["slow", "fast", "ramp:0.3,0.4"]
    assert "0.97" in figure.axes[1].get_title(loc="left")
    assert {text.get_text() for text in figure.axes[2].texts} == {"slow", "fast", "0.3,0.4"}
    assert "same seeds and steps" in caption


def test_a_share_that_is_not_defined_is_said_to_be_so():
    figure, _ = schedule_comparison(*tables(float("nan")))
    assert "not defined" in figure.axes[1].get_title(loc="left")
