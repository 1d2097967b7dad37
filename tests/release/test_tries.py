"""The order of repairs, and what each of them changes."""

from __future__ import annotations

import pytest

from adapcla.generation.generator import generator_for
from adapcla.release.settings import ReleaseSettings
from adapcla.release.tries import MOST_REPAIRS, tries
from adapcla.training.settings import METHODS


def test_without_repair_there_is_one_try():
    assert [each.number for each in tries(ReleaseSettings(), "tailwise", {})] == [1]


def test_repairs_come_in_order_and_each_keeps_what_was_done_before():
    first, second, third, last = tries(ReleaseSettings(repair=True, min_patients=15), "tailwise", {"width": 32})
    assert (first.min_patients, second.min_patients, third.min_patients, last.min_patients) == (15, 30, 30, 30)
    assert second.settings == first.settings == {"width": 32}
    assert third.passes == 0.5 and third.settings["prior_strength"] >= 80 and third.settings["shrinkage"] > 50
    assert last.settings["privacy"]["epsilon"] == 8 and last.settings["prior"] is False
    assert last.settings["shrinkage"] == third.settings["shrinkage"]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_can_be_repaired_and_no_more_often_than_promised(method):
    found = tries(ReleaseSettings(repair=True), method, {})
    assert 1 < len(found) <= MOST_REPAIRS + 1
    for each in found:
        generator_for(method, **each.settings)
