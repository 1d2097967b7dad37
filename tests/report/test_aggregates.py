"""The numbers behind charts: small cases, and nothing of few real patients in any of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.data.quantization import Quantizer
from adapcla.io.simulator import simulate
from adapcla.report.aggregates import (
    cooccurrence_maps,
    lengths,
    merge_bars,
    pair_patients,
    prevalence_points,
    stays,
    values,
)


@pytest.fixture(scope="module")
def world() -> Cohort:
    return simulate(400, 80, seed=1)


def test_a_copy_lies_on_the_line(world):
    found = prevalence_points(world, world)
    assert found.inside == 1 and all(dot.x == dot.y for dot in found.dots)
    assert {dot.kind for dot in found.dots} == {"head", "mid", "tail"}
    assert all(0 <= place <= 1 for place, _ in found.ticks)


def test_a_code_that_was_never_written_is_at_the_bottom(world):
    without = world.keep_codes(np.arange(world.n_codes) != world.visit_counts.argmax()).on(world.vocabulary)
    assert min(dot.y for dot in prevalence_points(world, without).dots) == 0


def test_pairs_of_few_patients_are_not_in_the_chart(world):
    found = cooccurrence_maps(world, world, smallest=11)
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
    found = cooccurrence_maps(whole, whole, smallest=11)
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
    edges = merge_bars(np.array([1, 2, 3, 4]), values, np.arange(12), 2)
    counts = np.bincount(np.searchsorted(edges, values, side="right") - 1)
    assert (counts >= 2).all() and len(edges) == 3


def test_one_patient_with_many_visits_does_not_make_a_bar():
    values, who = np.array([1] * 5 + [9] * 5), np.array([0, 1, 2, 3, 4, 5, 5, 5, 5, 5])
    assert merge_bars(np.array([1, 9]), values, who, 2).tolist() == [1]


# ---- whole records ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def train() -> Cohort:
    return whole_world(300, 1)


def test_records_of_diagnoses_have_no_values_and_no_stays():
    plain = Cohort.of([[["A", "B"], ["A"]]] * 30)
    assert values(plain, plain, 11) == [] and stays(plain, plain, 11) == []


def test_bars_of_a_copy_end_at_their_marks_and_add_up(train: Cohort):
    for bars in (*values(train, train, 11), *stays(train, train, 11)):
        assert bars.real == bars.synthetic and sum(bars.real) <= 1.001
    assert {bars.title for bars in stays(train, train, 11)} == {"How visits end", "Kind of visit"}
    assert all(bars.words for bars in stays(train, train, 11)) and not any(b.words for b in values(train, train, 11))
    assert {len(bars.labels) for bars in values(train, train, 11)} <= set(range(2, 11))


def test_an_ending_of_few_patients_is_not_shown(train: Cohort):
    n_died = int(train.patient_counts[train.vocabulary.index["END/died"]])
    shown = {bars.title: bars.labels for bars in stays(train, train, n_died + 1)}
    assert "died" not in shown["How visits end"] and "home" in shown["How visits end"]


def test_every_bar_of_a_value_holds_enough_patients(train: Cohort):
    cut = Quantizer.of(train, smallest=40)
    banded = cut.quantize(train)
    counts = banded.patient_counts[[banded.vocabulary.index[code.token] for n in cut.numbers for code in n.codes()]]
    assert counts.min() >= 40 and np.all([len(bars.labels) <= 10 for bars in values(train, train, 40)])
