from __future__ import annotations

import polars as pl
import pytest

from adapcla.report.figures.cases import (
    ROLE_COLOURS,
    TAIL_COLOUR,
    example_figure,
    neighbour_overlap,
    next_visit_calibration,
    next_visit_scores,
)


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
