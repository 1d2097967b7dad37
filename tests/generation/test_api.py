from __future__ import annotations

import pytest

from adapcla.errors import UsageError
from adapcla.generation.generator import methods, train
from adapcla.io.simulator import simulate
from adapcla.training.settings import METHODS

TINY = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64}


def test_every_row_is_named_with_what_it_is():
    assert list(methods()) == list(METHODS)
    assert all(methods().values())


def test_a_whole_cohort_is_trained_on_as_its_own_split_is():
    world = simulate(patients=200, codes=60, seed=1)
    whole, parts = train(world, seed=1, **TINY), train(world.split(), seed=1, **TINY)
    assert whole.sample(50, seed=1).fingerprint == parts.sample(50, seed=1).fingerprint
    assert whole.prevalence_.n_visits == world.split().train.n_visits


def test_a_method_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="did you mean 'adapcla'"):
        train(simulate(patients=50, codes=60, seed=1), "adapcl")
