from __future__ import annotations

import numpy as np

from adapcla.data import Cohort
from adapcla.report.figures.frequency import frequency_frequency, frequency_rank, rank_rank, shares

REAL = Cohort.of([[["A", "B"], ["A"]], [["A", "C"], ["B"]]])
MADE = Cohort.of([[["A"], ["A", "B"]]])


def test_shares_are_on_the_real_vocabulary():
    """MADE never writes C: its share is 0, not missing."""
    assert shares(MADE, REAL).tolist() == [1.0, 0.5, 0.0]


def test_curves_are_ranked_and_start_with_the_real_patients():
    figure, caption = frequency_rank(REAL, {"made": MADE})
    real, made = figure.axes[0].lines
    assert real.get_ydata().tolist() == [0.75, 0.5, 0.25] and made.get_ydata().tolist() == [1.0, 0.5]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["real (training)", "made"]
    assert len(caption) > 40


def test_codes_that_were_never_written_are_counted_in_the_title():
    figure, _ = frequency_frequency(REAL, {"made": MADE})
    assert figure.axes[0].get_title(loc="left") == "made: 33 % never written"
    assert figure.axes[0].get_xscale() == "symlog"


def test_more_than_four_cohorts_take_a_second_row_and_no_empty_panel():
    figure, _ = rank_rank(REAL, {f"m{i}": MADE for i in range(5)})
    assert len(figure.axes) == 5
    assert np.allclose(figure.get_size_inches(), [4 * 3.3, 2 * 3.1])
