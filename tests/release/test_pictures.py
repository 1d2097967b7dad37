"""The pictures as numbers: small cases, and nothing of few real patients in any of them."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.io.simulator import simulate
from adapcla.release.pictures import company, lengths, merged, pair_patients, prevalences


@pytest.fixture(scope="module")
def world() -> Cohort:
    return simulate(400, 80, seed=1)


def test_a_copy_lies_on_the_line(world):
    found = prevalences(world, world)
    assert found.inside == 1 and all(dot.x == dot.y for dot in found.dots)
    assert {dot.kind for dot in found.dots} == {"head", "mid", "tail"}
    assert all(0 <= place <= 1 for place, _ in found.ticks)


def test_a_code_that_was_never_written_lies_on_the_floor(world):
    without = world.keep_codes(np.arange(world.n_codes) != world.visit_counts.argmax()).on(world.vocabulary)
    assert min(dot.y for dot in prevalences(world, without).dots) == 0


def test_pairs_of_few_patients_are_not_in_the_picture(world):
    found = company(world, world, smallest=11)
    order = [next(i for i, code in enumerate(world.vocabulary.codes) if code.code == label) for label in found.labels]
    few = pair_patients(world, np.array(order)) < 11
    for i, row in enumerate(found.real):
        for j, level in enumerate(row):
            if few[i, j] or i == j:
                assert level is None and found.synthetic[i][j] is None and not found.titles[i][j]
    assert found.agreement == 1.0 and found.real == found.synthetic


def test_codes_of_stays_are_called_by_their_system_and_labels_are_short():
    """`home` alone could be a place, a visit or an ending."""
    whole = simulate(400, 80, seed=1, whole=True)
    found = company(whole, whole, smallest=11)
    assert {"END/home", "KIND/outpatient"} <= set(found.labels)
    assert not {"home", "outpatient"} & set(found.labels)
    assert max(map(len, found.labels)) <= 22


def test_every_bar_holds_enough_patients(world):
    for bars in lengths(world, world, smallest=11):
        assert bars.real == bars.synthetic and sum(bars.real) == pytest.approx(1, abs=1e-3)
    visits = lengths(world, world, smallest=11)[0]
    assert min(visits.real) * world.n_patients >= 10.5


def test_bars_of_few_join_their_neighbours():
    """Of 1, 2, 3, 4 with 5, 1, 1, 5 patients and at least 2: the ones of 2 and 3 are together with 1, or with 4."""
    values = np.repeat([1, 2, 3, 4], [5, 1, 1, 5])
    edges = merged(np.array([1, 2, 3, 4]), values, np.arange(12), 2)
    counts = np.bincount(np.searchsorted(edges, values, side="right") - 1)
    assert (counts >= 2).all() and len(edges) == 3


def test_one_patient_with_many_visits_does_not_make_a_bar():
    values, who = np.array([1] * 5 + [9] * 5), np.array([0, 1, 2, 3, 4, 5, 5, 5, 5, 5])
    assert merged(np.array([1, 9]), values, who, 2).tolist() == [1]
