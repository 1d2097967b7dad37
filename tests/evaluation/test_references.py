"""What the reference cohorts keep of the real one, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.conftest import value_of

from adapcla.data import Cohort
from adapcla.evaluation.references import (
    Profile,
    halves,
    marginal,
    some_patients,
    tail_per_visit,
    train_copy,
    with_fewer_tail_codes,
)


@pytest.fixture(scope="module")
def train() -> Cohort:
    """Twins: A and B always together, in half of the visits; C alone in a tenth of the visits besides."""
    draw = np.random.default_rng(1)
    return Cohort.of(
        [
            [(["A", "B"] if draw.random() < 0.5 else ["D"]) + (["C"] if draw.random() < 0.1 else [])] * (1 + i % 3)
            for i in range(900)
        ]
    )


def test_marginal_draws_keep_prevalence_and_lengths_but_no_structure(train: Cohort):
    floor = marginal(train, 20_000, seed=1)
    assert floor.n_patients == 20_000
    assert floor.visits_per_patient.mean() == pytest.approx(train.visits_per_patient.mean(), rel=0.02)
    # A visit is empty with probability (1−a)²(1−c)(1−d); redrawing those scales every prevalence alike.
    share = train.prevalence().share
    empty = np.prod(1 - share)
    assert floor.prevalence().share == pytest.approx(share / (1 - empty), abs=0.01)
    together = (floor.matrix()[:, :2].sum(axis=1) == 2).mean()
    assert together == pytest.approx(share[0] * share[1] / (1 - empty), abs=0.01)


def test_marginal_visits_are_never_empty_even_where_codes_are_rare():
    """One code in one of 400 visits of the rare kind, so that nearly every draw is empty."""
    rare = Cohort.of([[["A"]]] + [[["B"]]] * 3).keep_codes(np.array([True, True]))
    assert (marginal(rare, 50, seed=1).codes_per_visit >= 1).all()


def test_train_copy_repeats_whole_training_patients(train: Cohort):
    known = {str(record) for record in train.patients()}
    copy = train_copy(train, 2000, seed=1)
    assert copy.n_patients == 2000
    assert {str(record) for record in copy.patients()} <= known


def test_halves_are_disjoint_fixed_and_whole(train: Cohort):
    numbered = Cohort.of([[[f"P{i:03d}"]] for i in range(101)])
    one, two = halves(numbered)
    seen = [record[0][0] for half in (one, two) for record in half.patients()]
    assert sorted(seen) == [f"P{i:03d}" for i in range(101)]
    assert (one.n_patients, two.n_patients) == (51, 50)
    assert halves(numbered).ceiling.fingerprint == two.fingerprint


def test_some_patients_are_drawn_without_repeats_and_seeded():
    numbered = Cohort.of([[[f"P{i:03d}"]] for i in range(50)])
    some = some_patients(numbered, 20, seed=1)
    assert len(np.unique(some.codes)) == 20
    assert some.fingerprint == some_patients(numbered, 20, seed=1).fingerprint
    assert some.fingerprint != some_patients(numbered, 20, seed=2).fingerprint
    assert some_patients(numbered, 60, seed=1) is numbered


def test_same_seed_same_patients(train: Cohort):
    assert marginal(train, 30, seed=5).fingerprint == marginal(train, 30, seed=5).fingerprint
    assert marginal(train, 30, seed=5).fingerprint != marginal(train, 30, seed=6).fingerprint
    assert train_copy(train, 30, seed=5).fingerprint == train_copy(train, 30, seed=5).fingerprint


# ---- as many codes and rare codes per visit -----------------------------------------------------------------
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
    one, two = profile.thin(long), profile.thin(short)
    assert one.codes_per_visit.mean() == pytest.approx(two.codes_per_visit.mean(), rel=0.03)
    assert tail_per_visit(one, TAIL) == pytest.approx(tail_per_visit(two, TAIL), rel=0.1)
    assert tail_per_visit(one, TAIL) <= min(tail_per_visit(long, TAIL), tail_per_visit(short, TAIL)) * 1.02


@given(cohorts, cohorts)
def test_thinning_only_removes(one: Cohort, two: Cohort):
    thinned = Profile.of(one, two, TAIL, seed=3).thin(one)
    assert thinned.n_entries <= one.n_entries
    assert (thinned.visit_counts <= one.visit_counts).all()


@given(cohorts)
def test_alike_cohorts_are_left_alone(one: Cohort):
    assert Profile.of(one, one, TAIL, seed=3).thin(one).fingerprint == one.fingerprint


def test_tail_codes_are_the_last_to_go():
    """{C00, C01, C08} cut to two codes keeps its tail code C08, since both sides have one per visit."""
    long = Cohort.of([[["C00", "C01", "C08"]]] * 20, VOCABULARY)
    short = Cohort.of([[["C00", "C08"]]] * 20, VOCABULARY)
    assert Profile.of(long, short, TAIL, seed=1).thin(long).visit_counts[8] == 20


def test_writing_less_no_longer_wins():
    """A shy generator writes C00 and C01 alone and has every pair seen; real visits {C00, C01, C09} have 1 of 3,
    because nobody in training holds the tail code C09 with either. Without tail codes, real ones are as good."""
    train = Cohort.of([[["C00", "C01"]]] * 3 + [[["C09", "C02"]]], VOCABULARY)
    real = Cohort.of([[["C00", "C01", "C09"]]] * 30, VOCABULARY)
    shy = Cohort.of([[["C00", "C01"]]] * 30, VOCABULARY)

    def seen(cohort: Cohort) -> float | None:
        return value_of("pair_seen", train, cohort, real, intervals=False)

    profile = Profile.of(shy, real, TAIL, seed=1)
    assert seen(shy) == 1.0
    assert seen(real) == pytest.approx(1 / 3)
    assert seen(profile.thin(real)) == seen(profile.thin(shy)) == 1.0


def test_emptied_visits_and_patients_are_dropped():
    cohort = Cohort.of([[["C00"], ["C08"]], [["C08"]]], VOCABULARY)
    kept = cohort.keep_entries(np.array([True, False, False]))
    assert (kept.n_patients, kept.n_visits) == (1, 1)
    none_left = with_fewer_tail_codes(cohort, TAIL, 0.0, seed=1)
    assert tail_per_visit(none_left, TAIL) == 0.0
