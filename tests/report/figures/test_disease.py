"""The figure of a disease: what is drawn, and that small counts are not."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.report.figures.disease import company_shares, course, disease, rarest


def test_codes_of_few_real_patients_are_left_out() -> None:
    real = Cohort.of([[["X", "F"]]] * 30 + [[["X", "G"]]] * 5, ["F", "G", "X"])
    written = Cohort.of([[["X", "G"]]] * 50, ["F", "G", "X"])
    figure = disease(Criteria.of("X"), real, written)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["F"]


def test_a_course_that_few_real_patients_go_is_not_told() -> None:
    """Twenty patients have a second visit, of whom five have the code again."""
    again = [[["X"], ["X"]]] * 5 + [[["X"], ["F"]]] * 15
    real = Cohort.of([[["X"]]] * 20 + again, ["F", "X"])
    _, there, share = disease(Criteria.of("X"), real, real).axes
    assert there.lines[0].get_xdata().tolist() == [0, 1]
    assert share.lines[0].get_xdata().tolist() == [0]


def test_shares_and_course_by_hand() -> None:
    cohort = Cohort.of([[["B"], ["A"], ["C"]], [["A", "C"]]])
    condition = Criteria.of("A")
    assert company_shares(cohort, condition).tolist() == [0.0, 0.0, 0.5]
    assert course(cohort, condition).tolist() == [[0, 0], [1, 0], [2, 2], [1, 0], [0, 0], [0, 0]]


def test_the_rarest_codes_that_enough_patients_have() -> None:
    cohort = Cohort.of([[["A", "B"]], [["A", "B", "C"]], [["A"]]])
    assert rarest(cohort, fewest=2, most=5) == [1, 0]
    assert np.array_equal(rarest(cohort, fewest=1, most=1), [2])
