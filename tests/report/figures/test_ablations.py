from __future__ import annotations

import polars as pl

from adapcla.report.figures.ablations import ablation_differences


def test_rows_with_intervals_and_rows_without_a_value():
    table = pl.DataFrame(
        [
            {
                "row": "kept",
                "against": "annealed",
                "metric": "tail_pair_seen",
                "better_by": 0.1,
                "low": 0.0,
                "high": 0.2,
                "seeds": 3,
            },
            {
                "row": "gone",
                "against": "annealed",
                "metric": "tail_pair_seen",
                "better_by": None,
                "low": None,
                "high": None,
                "seeds": 0,
            },
        ]
    )
    figure, caption = ablation_differences(table)
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["no value"]
    whisker = figure.axes[0].get_lines()[1]
    assert list(whisker.get_xdata()) == [0.0, 0.2]
    assert "at most 3" in caption
