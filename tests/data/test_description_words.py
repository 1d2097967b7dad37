"""A description in words."""

from __future__ import annotations

from adapcla.data import Cohort
from adapcla.data.description import describe, lines, parts


def test_every_number_of_a_small_cohort_is_told(tiny: Cohort):
    """Three patients, five visits, four codes; a third of the patients have one visit."""
    told = dict(lines(describe(tiny)))
    assert (told["patients"], told["visits"], told["codes"]) == ("3", "5", "4")
    assert told["visits per patient"].endswith("33.3 % have one")
    assert told["dropped"] == "nothing"


def test_the_parts_of_the_tail_come_with_the_bands(tiny: Cohort):
    names = [name for name, _ in parts(describe(tiny))]
    assert names[:3] == ["head", "mid", "tail"]
    assert len(names) == len(set(names)) and not any(name == "in 1 visits" for name in names)
