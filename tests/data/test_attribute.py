"""Attributes of some patients, and of two groups of them."""

from __future__ import annotations

import numpy as np

from adapcla.data import Attribute

SEX = Attribute(np.array([1, -1, 0], dtype=np.int16), ("F", "M"))


def test_positions_and_masks_choose_patients():
    assert SEX.of_patients(np.array([2, 2, 1])).values.tolist() == [0, 0, -1]
    chosen = SEX.of_patients(np.array([True, False, True]))
    assert chosen.values.tolist() == [1, 0]
    assert chosen.values.dtype == np.int16 and chosen.categories == ("F", "M")


def test_two_groups_stand_one_after_the_other():
    both = SEX.of_patients(np.array([0])).followed_by(SEX)
    assert both.values.tolist() == [1, 1, -1, 0]
    assert both.values.dtype == np.int16 and both.categories == ("F", "M")
