from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.report.figures.cooccurrence import given_label, label_codes, linkage_order, ppmi, ppmi_heatmaps

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
