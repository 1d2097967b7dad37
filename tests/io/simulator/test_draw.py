"""Draws: each patient by itself, whole, and by the law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.io import simulator as planted
from adapcla.io.simulator.balance import MOST_VISITS
from adapcla.io.simulator.draw import Sampler


@pytest.fixture(scope="module")
def everybody():
    return Sampler(planted.law(100), 3).draw(np.arange(400))


@settings(max_examples=25)
@given(st.sets(st.integers(0, 399), min_size=1, max_size=12))
def test_a_patient_is_the_same_whoever_is_drawn_along(everybody, chosen):
    patients = np.array(sorted(chosen))
    alone = Sampler(planted.law(100), 3).draw(patients)
    visit_starts, code_starts = np.cumsum([0, *everybody.visits]), np.cumsum([0, *everybody.visit_sizes])
    visits = np.concatenate([np.arange(visit_starts[p], visit_starts[p + 1]) for p in patients])
    assert alone.visits.tolist() == everybody.visits[patients].tolist()
    assert alone.group.tolist() == everybody.group[patients].tolist()
    assert alone.days.tolist() == everybody.days[visits].tolist()
    codes = np.concatenate([everybody.codes[code_starts[v] : code_starts[v + 1]] for v in visits])
    assert alone.codes.tolist() == codes.tolist()


@pytest.mark.parametrize("population", planted.POPULATIONS)
def test_chunks_change_nothing(population):
    whole = planted.simulate(300, 100, seed=5, population=population)
    pieces = planted.simulate(300, 100, seed=5, population=population, chunk=7)
    assert whole.fingerprint == pieces.fingerprint


def test_another_seed_draws_other_patients_with_nothing_in_common_but_the_law():
    one, two = (planted.simulate(2000, 100, seed=seed) for seed in (1, 2))
    assert one.fingerprint != two.fingerprint
    same = (one.attributes["sex"].values == two.attributes["sex"].values).mean()
    assert same == pytest.approx(0.5, abs=0.05)


def test_every_visit_has_exactly_one_reason():
    law = planted.law(100)
    cohort = planted.simulate(500, 100)
    reasons = np.asarray(cohort.matrix()[:, law.layout.reasons].sum(axis=1)).ravel()
    assert (reasons == 1).all()


def test_days_ascend_from_zero_and_records_end_by_the_last_visit():
    cohort = planted.simulate(3000, 60)
    days, first = np.asarray(cohort.days), np.asarray(cohort.patient_starts[:-1])
    assert (days[first] == 0).all()
    inside = np.diff(cohort.patient_of_visit) == 0
    assert (np.diff(days)[inside] > 0).all()
    assert cohort.visits_per_patient.max() <= MOST_VISITS


def test_no_patient_has_a_code_of_the_other_sex():
    law = planted.law(600)
    cohort = planted.simulate(4000, 600)
    factor = law.structure.group_factor[:, : law.n_codes].copy()
    factor[:, law.layout.reasons] = 1
    group = np.repeat(law.groups(cohort)[cohort.patient_of_visit], cohort.codes_per_visit)
    assert (factor == 0).any()
    assert (factor[group, cohort.codes] > 0).all()
