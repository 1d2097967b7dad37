"""Figures of whole records: a copy lies on the line, every panel is one number or one choice, few are left out."""

from __future__ import annotations

import numpy as np
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.report.figures import gallery
from adapcla.report.figures.whole_record import quantile_panels, stay_bars, stay_groups

TRAIN, MADE = whole_world(200, 1), whole_world(100, 2)


def test_quantiles_of_a_copy_lie_on_the_line():
    figure, caption = quantile_panels(TRAIN, {"copy": TRAIN, "made": MADE})
    assert len(figure.axes) == 3
    for axis in figure.axes:
        _, copy, made = axis.lines
        inside = np.abs(copy.get_xdata() - copy.get_ydata()) < 1e-9
        assert inside.mean() > 0.85, "but for the ends, which are cut where eleven patients lie beyond"
        assert len(made.get_ydata()) == 99
    assert len(caption) > 60


def test_every_choice_of_stays_is_a_panel_and_real_patients_stand_first():
    figure, caption = stay_bars(TRAIN, {"made": MADE})
    assert stay_groups(TRAIN) == ["end", "kind"] and len(figure.axes) == 2
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["real (training)", "made"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["died", "facility", "home"]
    assert len(caption) > 60


def test_records_of_diagnoses_get_no_new_picture():
    plain = Cohort.of([[["A", "B"]]] * 20)
    assert list(gallery._whole_record_pictures(plain, {"made": plain})) == []
    drawn = list(gallery._whole_record_pictures(TRAIN, {"made": MADE}))
    assert [(one.key, one.section) for one in drawn] == [("quantiles", "numbers"), ("stays", "stays")]
