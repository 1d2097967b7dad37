"""What is expected of codes that few patients hold, against laws that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from adapcla.data import Cohort
from adapcla.data.prevalence import expected_counts
from adapcla.io import simulator as planted


def test_codes_of_one_kind_are_all_expected_alike():
    """All codes have 5 patients on average, counts from 1 to 12: whatever was counted, 5 is expected."""
    counts = np.repeat(np.arange(1, 13), np.round(5000 * stats.poisson.pmf(np.arange(1, 13), 5)).astype(int))
    assert expected_counts(counts) == pytest.approx(np.full(len(counts), 5.0), abs=0.8)
    assert np.abs(expected_counts(counts) - 5).mean() < 0.2


def test_rates_of_a_gamma_law_have_its_posterior_mean():
    """Rates from a Gamma law of shape 2 and mean 4: of a code counted r times (r + 2) · 2/3 is expected."""
    r = np.arange(1, 25)
    counts = np.repeat(r, np.round(200_000 * stats.nbinom.pmf(r, 2, 1 / 3)).astype(int))
    found = expected_counts(counts)
    for one in (1, 2, 4, 8, 12):
        assert found[counts == one][0] == pytest.approx((one + 2) * 2 / 3, rel=0.06)


def test_common_codes_and_codes_never_seen_are_left_as_counted():
    found = expected_counts(np.array([0, 101, 5000, 3]))
    assert found[:3].tolist() == [0.0, 101.0, 5000.0]


def test_codes_that_many_of_few_patients_hold_are_not_rare(tiny):
    assert tiny.expected_prevalence().share.tolist() == tiny.prevalence().share.tolist()


@pytest.mark.parametrize("counts", [[], [0, 0], [500]])
def test_without_rare_codes_nothing_changes(counts):
    assert expected_counts(np.array(counts, dtype=np.int64)).tolist() == counts


def test_a_code_of_few_patients_brings_the_visits_of_its_kind():
    """101 patients with A twice each are common, and stay; B has 1 patient with 7 visits, 7 for each rare patient."""
    cohort = Cohort.of([[["A"], ["A"]]] * 101 + [[["B"]] * 7])
    share = cohort.expected_prevalence().share
    assert share[0] == 202 / 209
    assert share[1] == pytest.approx(7 / 209 * expected_counts(np.array([1]))[0])


def test_codes_that_are_rare_in_training_are_nearer_to_test_patients_than_their_share():
    """Tail codes of training per visit, over three splits of one world: at least half of what was missing is there."""
    world = planted.simulate(patients=6000, codes=1500, seed=1)
    missing = left = 0.0
    for seed in (4, 5, 6):
        train, _, test = world.split(seed=seed)
        tail = train.strata().tail
        counted, expected, truth = (
            float(one.share[tail].sum()) for one in (train.prevalence(), train.expected_prevalence(), test.prevalence())
        )
        missing, left = missing + truth - counted, left + truth - expected
    assert missing > 0 and abs(left) < 0.5 * missing
