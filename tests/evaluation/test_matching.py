"""Thinning: sizes and tail codes become alike, nothing is added."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.references import Profile, tail_per_visit, with_fewer_tail_codes
from adapcla.evaluation.metric import METRICS, metrics_of

metrics_of(["tail"])
VOCABULARY = [f"C{i:02d}" for i in range(12)]
TAIL = np.array([code >= "C08" for code in VOCABULARY])
visits = st.sets(st.sampled_from(VOCABULARY), min_size=1, max_size=8)
cohorts = st.lists(st.lists(visits, min_size=1, max_size=3), min_size=1, max_size=8).map(
    lambda patients: Cohort.of(patients, VOCABULARY)
)


def random_cohort(seed: int, n: int, mean: float, tail_weight: float) -> Cohort:
    draw = np.random.default_rng(seed)
    weight = np.where(TAIL, tail_weight, 1.0)
    sizes = np.clip(draw.poisson(mean, n), 1, 8)
    return Cohort.of(
        [[draw.choice(VOCABULARY, size, replace=False, p=weight / weight.sum())] for size in sizes], VOCABULARY
    )


def test_both_sides_end_with_the_same_sizes_and_tail_rate():
    """One side writes long visits with few tail codes, the other short ones with many."""
    long, short = random_cohort(1, 2000, 6, 0.2), random_cohort(2, 1500, 3, 0.8)
    profile = Profile.of(long, short, TAIL, seed=1)
    one, two = profile.applied(long), profile.applied(short)
    assert one.codes_per_visit.mean() == pytest.approx(two.codes_per_visit.mean(), rel=0.03)
    assert tail_per_visit(one, TAIL) == pytest.approx(tail_per_visit(two, TAIL), rel=0.1)
    assert tail_per_visit(one, TAIL) <= min(tail_per_visit(long, TAIL), tail_per_visit(short, TAIL)) * 1.02


@given(cohorts, cohorts)
def test_thinning_only_removes(one: Cohort, two: Cohort):
    thinned = Profile.of(one, two, TAIL, seed=3).applied(one)
    assert thinned.n_entries <= one.n_entries
    assert (thinned.visit_counts <= one.visit_counts).all()


@given(cohorts)
def test_alike_cohorts_are_left_alone(one: Cohort):
    assert Profile.of(one, one, TAIL, seed=3).applied(one).fingerprint == one.fingerprint


def test_tail_codes_are_the_last_to_go():
    """{C00, C01, C08} cut to two codes keeps its tail code C08, since both sides have one per visit."""
    long = Cohort.of([[["C00", "C01", "C08"]]] * 20, VOCABULARY)
    short = Cohort.of([[["C00", "C08"]]] * 20, VOCABULARY)
    assert Profile.of(long, short, TAIL, seed=1).applied(long).visit_counts[8] == 20


def test_writing_less_no_longer_wins():
    """A shy generator writes C00 and C01 alone and has every pair seen; real visits {C00, C01, C09} have 1 of 3,
    because nobody in training holds the tail code C09 with either. Without tail codes, real ones are as good."""
    train = Cohort.of([[["C00", "C01"]]] * 3 + [[["C09", "C02"]]], VOCABULARY)
    real = Cohort.of([[["C00", "C01", "C09"]]] * 30, VOCABULARY)
    shy = Cohort.of([[["C00", "C01"]]] * 30, VOCABULARY)

    def seen(cohort: Cohort) -> float | None:
        return METRICS["pair_seen"].compute(Comparison.of(train, real, cohort, intervals=False))["all"].value

    profile = Profile.of(shy, real, TAIL, seed=1)
    assert seen(shy) == 1.0
    assert seen(real) == pytest.approx(1 / 3)
    assert seen(profile.applied(real)) == seen(profile.applied(shy)) == 1.0


def test_emptied_visits_and_patients_are_dropped():
    cohort = Cohort.of([[["C00"], ["C08"]], [["C08"]]], VOCABULARY)
    kept = cohort.keep_entries(np.array([True, False, False]))
    assert (kept.n_patients, kept.n_visits) == (1, 1)
    none_left = with_fewer_tail_codes(cohort, TAIL, 0.0, seed=1)
    assert tail_per_visit(none_left, TAIL) == 0.0
