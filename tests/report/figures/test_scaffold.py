from __future__ import annotations

import pytest

from adapcla.errors import UsageError
from adapcla.report.figures.scaffold import NAMED, schedule_curves
from adapcla.scaffold import schedule


def test_the_curves_are_those_that_training_asks_for():
    figure, _ = schedule_curves(NAMED)
    for name, line in zip(NAMED, figure.axes[0].lines, strict=True):
        for progress, weight in zip(line.get_xdata()[::40], line.get_ydata()[::40], strict=True):
            assert weight == schedule(name).weight(float(progress))


def test_a_schedule_that_does_not_exist_is_refused():
    with pytest.raises(UsageError):
        schedule_curves(["sudden"])
