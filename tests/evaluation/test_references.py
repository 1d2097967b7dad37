"""What the reference cohorts keep of the real one, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation.references import halves, marginal, some_patients, train_copy


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
