"""Values as flat arrays: scales, usual ranges and quantiles that can be checked on paper."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from tests.evaluation.conftest import GLUCOSE, World

from adapcla.evaluation.numeric import Scales, by_number, quantile_distance, usual_range, values_of

floats = st.lists(st.integers(-50, 50), min_size=1, max_size=8).map(lambda x: np.sort(np.array(x * 125, dtype=float)))


def test_every_value_knows_its_number_visit_and_patient(world: World):
    cohort = world(20)
    values = values_of(cohort)
    assert len(values.value) == int(np.isfinite(cohort.values).sum())
    for number, visit, patient, value in list(zip(*values, strict=True))[:50]:
        where = np.flatnonzero(cohort.codes_of(visit) == number)[0] + cohort.visit_starts[visit]
        assert cohort.values[where] == value and cohort.patient_of_visit[visit] == patient


def test_plain_records_have_no_values(world: World):
    assert not len(values_of(world(5).without_values()).value)


def test_the_range_ends_where_eleven_patients_lie_beyond_however_many_values_one_of_them_has():
    value = np.concatenate([np.full(500, -9.0), np.arange(100.0)])
    patient = np.concatenate([np.zeros(500, dtype=np.int64), np.arange(100)])
    # The least values of patients are −9, 1, 2 … : the eleventh of them is 10.
    assert usual_range(value, patient)[0] == 10.0


def test_a_number_of_ten_patients_is_not_judged(world: World):
    assert not Scales.of(world(10)).judged.any()
    assert Scales.of(world(11)).judged[world(11).vocabulary.index[GLUCOSE.token]]


def test_a_number_that_never_varies_has_a_scale_of_one(world: World):
    cohort = world(40)
    from dataclasses import replace

    same = replace(cohort, values=np.where(np.isnan(cohort.values), np.nan, 5).astype(np.float32))
    scales = Scales.of(same)
    assert (scales.spread[scales.judged] == 1).all() and (scales.deviation[scales.judged] == 1).all()


def test_values_are_told_apart_by_number(world: World):
    values = values_of(world(20))
    assert sum(len(own.value) for _, own in by_number(values)) == len(values.value)
    assert all((own.number == number).all() for number, own in by_number(values))


@given(floats, floats)
def test_the_distance_of_quantiles_is_that_of_wasserstein_where_the_grid_divides_the_values(one, two):
    assert abs(quantile_distance(one, two) - wasserstein_distance(one, two)) < 0.11


def test_nothing_has_no_distance():
    assert np.isnan(quantile_distance(np.zeros(0), np.ones(3)))
