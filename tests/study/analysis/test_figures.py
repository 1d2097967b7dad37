"""Figures of the analyses."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.scaffold import schedule
from adapcla.study.analysis.bound import ExactSetting, flow
from adapcla.study.analysis.figures import (
    ROLE_COLOURS,
    TAIL_COLOUR,
    bound_against_error,
    code_trend,
    endpoint_deviation,
    example_figure,
    kernel_scatter,
    neighbour_overlap,
    next_visit_calibration,
    next_visit_scores,
    probe_dynamics,
    schedule_comparison,
)


# ---- dynamics ------------------------------------------------------------------------------------------------
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


# ---- bound ---------------------------------------------------------------------------------------------------
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


# ---- kernel --------------------------------------------------------------------------------------------------
def test_points_and_the_correlation_of_the_larger_set():
    groups = ("all", "shared")
    similarities = pl.DataFrame(
        [
            {"group": g, "context": i, "kind": k, "similarity": 0.1 * i, "final_gain": float(i)}
            for g in groups
            for i, k in enumerate(("related_rare", "unrelated_rare", "wrong"))
        ]
    )
    eigenvalues = pl.DataFrame(
        [
            {"group": g, "context": i, "smallest_eigenvalue": 5.0 + i, "mean_gain": -float(i)}
            for g in groups
            for i in range(3)
        ]
    )
    correlations = pl.DataFrame(
        [
            {"contexts": n, "group": g, "x": x, "y": y, "kind": "all", "rho": rho, "p": 0.5, "n": n}
            for n, rho in ((30, 0.9), (100, 0.12))
            for g in groups
            for x, y in (("similarity", "final_gain"), ("smallest_eigenvalue", "mean_gain"))
        ]
    )
    figure, caption = kernel_scatter(similarities, eigenvalues, correlations)
    assert len(figure.axes) == 4
    assert "+0.12" in figure.axes[0].get_title(loc="left") and "n = 100" in figure.axes[0].get_title(loc="left")
    assert sum(len(c.get_offsets()) for c in figure.axes[0].collections) == 3
    assert "100 contexts" in caption


# ---- schedules -----------------------------------------------------------------------------------------------
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


# ---- cases ---------------------------------------------------------------------------------------------------
def test_bars_have_the_height_of_the_table():
    rows = [
        {"method": m, "stratum": s, "patients": 7, "measure": measure, "value": v, "low": v, "high": v}
        for m, v in (("mine", 0.25), ("theirs", 0.5))
        for s in ("all", "tail")
        for measure in ("hit_rate", "recall_at_20")
    ]
    rows[0] |= {"value": None, "low": None, "high": None}
    figure, caption = next_visit_scores(pl.DataFrame(rows, infer_schema_length=None))
    heights = sorted(patch.get_height() for patch in figure.axes[0].patches)
    assert heights == pytest.approx([0.25, 0.5, 0.5])
    assert "all 7 eligible" in caption


def test_bins_without_events_are_not_drawn():
    bins = pl.DataFrame(
        [
            {"method": "mine", "stratum": "tail", "expected": 0.1, "observed": 0.2, "events": 3},
            {"method": "mine", "stratum": "tail", "expected": 0.01, "observed": 0.0, "events": 0},
        ]
    )
    figure, _ = next_visit_calibration(bins)
    assert list(figure.axes[2].get_lines()[0].get_xdata()) == [0.1]


def test_an_example_has_the_colours_of_the_papers_table():
    table = pl.DataFrame(
        [
            {"example": 0, "source": "mine", "role": r, "code": c, "description": d, "tail": t}
            for r, c, d, t in (
                ("correct", "A", "Alpha", False),
                ("correct", "T", "", True),
                ("wrong", "B", "Beta", True),
                ("missed", "C", "Gamma", False),
            )
        ]
    )
    figure, caption = example_figure(table)
    found = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert found["✓ Alpha"] == ROLE_COLOURS["correct"]
    assert found["✓ T ◆"] == TAIL_COLOUR
    assert found["✗ Beta ◆"] == ROLE_COLOURS["wrong"]
    assert found["○ Gamma"] == ROLE_COLOURS["missed"]
    assert "without a look at what followed" in caption


def test_overlap_shows_every_method_against_each_reference():
    table = pl.DataFrame(
        [
            {"reference": r, "method": m, "top": 10, "mean": 0.2, "low": 0.1, "high": 0.3}
            for r in ("real (training)", "real (held out)")
            for m in ("mine", "theirs")
        ]
    )
    figure, caption = neighbour_overlap(table)
    assert [tick.get_text() for tick in figure.axes[1].get_yticklabels()] == ["mine", "theirs"]
    assert "10 most frequent" in caption
