"""What is expected of codes that few patients hold, by hand and on patients of a known law."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.records import Cohort
from adapcla.records.turing import expected_prevalence, turing_counts
from adapcla.sources import planted


def test_turings_estimate_by_hand():
    """100 codes of one patient, 20 of two: 2 · 20 / 100 = 0.4 of the first; of two nothing clear is known, so 2."""
    counts = np.repeat([1, 2, 3], [100, 20, 12])
    assert np.unique(turing_counts(counts)).tolist() == [0.4, 2.0, 3.0]


def test_an_estimate_that_may_be_chance_is_not_taken():
    """3 codes of one patient and 2 of two: 2 · 2 / 3 = 1.33 with an error of 1.2."""
    assert turing_counts(np.array([1, 1, 1, 2, 2])).tolist() == [1, 1, 1, 2, 2]


def test_the_first_unclear_count_ends_the_corrections():
    """Counts of 1 are clear (2 · 90 / 50 = 3.6); of 2 not (3 · 61 / 90 = 2.03); so 3 is not asked."""
    expected = turing_counts(np.repeat([1, 2, 3, 4], [50, 90, 61, 200]))
    assert np.unique(expected[:50]).tolist() == [3.6]
    assert expected[50:].tolist() == [2.0] * 90 + [3.0] * 61 + [4.0] * 200


@pytest.mark.parametrize("counts", [[], [0, 0], [1], [5, 5, 5]])
def test_few_codes_are_expected_as_they_were_counted(counts):
    assert turing_counts(np.array(counts, dtype=np.int64)).tolist() == counts


def test_codes_keep_their_visits_for_each_patient():
    """60 codes of two patients each, 40 of one patient who has each in two of his visits: factor 3 of the first 40."""
    often = [f"B{i:02d}" for i in range(60)]
    patients = [[[f"A{i:02d}"], [f"A{i:02d}"]] for i in range(40)] + [[often], [often]]
    cohort = Cohort.of(patients)
    share = expected_prevalence(cohort).share
    assert share[:40].tolist() == pytest.approx([3 * 2 / 82] * 40)
    assert share[40:].tolist() == pytest.approx([2 / 82] * 60)


def test_codes_that_are_rare_in_training_are_nearer_to_test_patients_than_their_share():
    """Over the codes that one or two training patients hold, in three splits of one world."""
    world = planted.simulate(patients=6000, codes=1500, seed=1)
    plain, expected, truth = 0.0, 0.0, 0.0
    for seed in (4, 5, 6):
        train, _, test = world.split(seed=seed)
        rare = np.isin(train.patient_counts, (1, 2))
        plain += float(train.prevalence().share[rare].sum())
        expected += float(expected_prevalence(train).share[rare].sum())
        truth += float(test.prevalence().share[rare].sum())
    assert abs(expected - truth) < 0.5 * abs(plain - truth)
