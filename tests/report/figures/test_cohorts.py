"""Figures of cohorts: what is drawn, and that small counts are not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.report import style
from adapcla.report.aggregates import linkage_order, stay_groups
from adapcla.report.figures.cohorts import (
    cooccurring_shares,
    course,
    disease,
    frequency_frequency,
    frequency_rank,
    given_label,
    label_codes,
    longtail,
    ppmi,
    ppmi_heatmaps,
    quantile_panels,
    rank_rank,
    rarest,
    shares,
    stay_bars,
)
from adapcla.study import page as pages


def test_the_curve_holds_every_code_once_most_frequent_first(tiny):
    """A and B in 3 visits, C and D in 1: from the rarest C, D, A, B, so the tail is C and the head is B."""
    lines = {line.get_label().split(":")[0]: line for line in longtail(tiny).axes[0].lines}
    assert lines["head"].get_xydata().tolist() == [[1, 3]]
    assert lines["mid"].get_xydata().tolist() == [[2, 3], [3, 1]]
    assert lines["tail"].get_xydata().tolist() == [[4, 1]]


def test_the_bars_are_shares_of_all(tiny):
    """Codes per visit 2, 1, 1, 3, 1 and visits per patient 2, 1, 2."""
    _, codes, visits = longtail(tiny).axes
    assert [bar.get_height() for bar in codes.patches] == pytest.approx([0.6, 0.2, 0.2])
    assert [bar.get_height() for bar in visits.patches] == pytest.approx([1 / 3, 2 / 3])


def test_what_lies_beyond_the_last_bar_is_gathered_and_said():
    long = Cohort.of([[[f"C{i}" for i in range(100)], ["C0"]]])
    axes = longtail(long).axes[1]
    assert "40 or more" in axes.get_xlabel()
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)


@pytest.mark.parametrize("patients", [[], [[["A"]]]], ids=["nobody", "one"])
def test_the_smallest_cohorts_can_be_drawn(patients):
    assert style.image(longtail(Cohort.of(patients)), ".svg")


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
    assert figure.axes[0].get_title(loc="left") == "made: 33 % never generated"
    assert figure.axes[0].get_xscale() == "symlog"


def test_more_than_four_cohorts_take_a_second_row_and_no_empty_panel():
    figure, _ = rank_rank(REAL, {f"m{i}": MADE for i in range(5)})
    assert len(figure.axes) == 5
    assert np.allclose(figure.get_size_inches(), [4 * 3.3, 2 * 3.1])


#: A and B always together, C and D always together.
BLOCKS = Cohort.of([[["A", "B"]], [["C", "D"]]] * 5)


def test_pairs_below_chance_are_zero_and_the_map_is_symmetric():
    """P(A, B) = 1/2 against 1/4 by chance: log 2; A and C never meet: 0."""
    found = ppmi(BLOCKS, np.arange(4))
    assert found[0, 1] == pytest.approx(np.log(2)) and found[0, 2] == 0
    assert np.array_equal(found, found.T)


def test_the_order_puts_partners_side_by_side():
    mixed = ppmi(BLOCKS, np.array([0, 2, 1, 3]))
    order = linkage_order(mixed)
    names = np.array(["A", "C", "B", "D"])[order]
    assert {"".join(sorted(names[:2])), "".join(sorted(names[2:]))} == {"AB", "CD"}


def test_all_maps_share_the_real_order_and_a_copy_correlates_fully():
    figure, _ = ppmi_heatmaps(BLOCKS, {"copy": BLOCKS, "scrambled": Cohort.of([[["A", "C"]], [["B", "D"]]] * 5)})
    titles = [axis.get_title(loc="left") for axis in figure.axes[:3]]
    assert titles[0] == "real (training)" and titles[1] == "copy: r = 1.00" and "-" in titles[2]


def test_the_share_of_labelled_patients_who_hold_a_code():
    """Label 0 has patients 0 and 1; one of them holds B."""
    cohort = Cohort.of([[["A"], ["A"]], [["A", "B"]], [["B"]]])
    labels = np.array([[1, 0], [1, 0], [0, 0]], dtype=np.uint8)
    assert given_label(cohort, labels, np.array([0, 1])).tolist() == [[1.0, 0.5], [0.0, 0.0]]


def test_codes_of_each_stratum_come_most_frequent_first():
    cohort = Cohort.of([[["A"]]] * 5 + [[["B"]]] * 3 + [[["C"]]])
    assert {name: codes.tolist() for name, codes in label_codes(cohort).items()} == {
        "head": [0],
        "mid": [1],
        "tail": [2],
    }


TRAIN, WHOLE = whole_world(200, 1), whole_world(100, 2)


def test_quantiles_of_a_copy_lie_on_the_line():
    figure, caption = quantile_panels(TRAIN, {"copy": TRAIN, "made": WHOLE})
    assert len(figure.axes) == 3
    for axis in figure.axes:
        _, copy, made = axis.lines
        inside = np.abs(copy.get_xdata() - copy.get_ydata()) < 1e-9
        assert inside.mean() > 0.85, "but for the ends, which are cut where eleven patients lie beyond"
        assert len(made.get_ydata()) == 99
    assert len(caption) > 60


def test_every_choice_of_stays_is_a_panel_and_real_patients_stand_first():
    figure, caption = stay_bars(TRAIN, {"made": WHOLE})
    assert stay_groups(TRAIN) == ["end", "kind"] and len(figure.axes) == 2
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["real (training)", "made"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["died", "facility", "home"]
    assert len(caption) > 60


def test_records_of_diagnoses_get_no_new_picture():
    plain = Cohort.of([[["A", "B"]]] * 20)
    assert list(pages._whole_record_figures(plain, {"made": plain})) == []
    drawn = list(pages._whole_record_figures(TRAIN, {"made": WHOLE}))
    assert [(one.key, place) for place, one in drawn] == [("quantiles", "numbers"), ("stays", "stays")]


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
    assert cooccurring_shares(cohort, condition).tolist() == [0.0, 0.0, 0.5]
    assert course(cohort, condition).tolist() == [[0, 0], [1, 0], [2, 2], [1, 0], [0, 0], [0, 0]]


def test_the_rarest_codes_that_enough_patients_have() -> None:
    cohort = Cohort.of([[["A", "B"]], [["A", "B", "C"]], [["A"]]])
    assert rarest(cohort, fewest=2, most=5) == [1, 0]
    assert np.array_equal(rarest(cohort, fewest=1, most=1), [2])
