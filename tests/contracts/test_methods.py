"""What every row of the method table promises, on a tiny planted world."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
import torch

from adapcla.data import Cohort, Prevalence
from adapcla.errors import InterruptedRun, UsageError
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.io import simulator as planted
from adapcla.models.base import Moment
from adapcla.training.settings import METHODS

#: Small enough that all rows together take a minute.
TINY = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 32, "context": 12, "validations": 3}
TINY["critic_steps"] = 1  # so that five steps are enough for everybody to have a turn
ROWS = [name for name in METHODS if not name.endswith("paper-size")]
TRAINED = [name for name in ROWS if METHODS[name].settings.family.objective is not None]
STEERABLE = [name for name in ROWS if "toward" in METHODS[name].supports]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    before = os.environ.get("ADAPCLA_QUIET")
    os.environ["ADAPCLA_QUIET"] = "1"
    yield
    if before is None:
        del os.environ["ADAPCLA_QUIET"]


@cache
def parts() -> tuple[Cohort, Cohort, Cohort]:
    return planted.simulate(patients=200, codes=60, seed=1).split(seed=4)


def unfitted(name: str, **changes: object) -> Generator:
    settings = METHODS[name].settings
    known = {**settings.architecture.model_dump(), **settings.budget.model_dump()}
    tiny = {key: value for key, value in TINY.items() if key in known}
    # One round of calibration is as much a promise as four.
    tiny["calibration_rounds"] = min(settings.calibration_rounds, 1)
    return generator_for(name, **tiny, **changes)


@cache
def fitted(name: str) -> Generator:
    train, valid, _ = parts()
    return unfitted(name).fit(train, valid)


def same(one: Cohort, two: Cohort) -> bool:
    return one.fingerprint == two.fingerprint


@pytest.mark.parametrize("name", ROWS)
def test_it_writes_patients_on_its_vocabulary(name):
    train, _, _ = parts()
    made = fitted(name).sample(60, seed=2)
    assert made.n_patients == 60
    assert made.vocabulary == train.vocabulary
    assert made.visits_per_patient.max() <= train.visits_per_patient.max()
    assert set(made.attributes) == set(train.attributes)
    assert (made.days is None) == (train.days is None)


@pytest.mark.parametrize("name", ROWS)
def test_a_patient_depends_on_seed_and_number_alone(name):
    """Asking for more, or in other batches, changes nobody; another seed changes people."""
    generator = fitted(name)
    many = generator.sample(300, seed=2)
    assert same(many.subset(range(40)), generator.sample(40, seed=2))
    assert same(many, generator.sample(300, seed=2, batch_size=7))
    assert not same(generator.sample(40, seed=2), generator.sample(40, seed=3))


@pytest.mark.parametrize("name", ROWS)
def test_it_survives_saving(name, tmp_path):
    generator = fitted(name)
    generator.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.settings == generator.model.settings
    assert same(generator.sample(30, seed=5), again.sample(30, seed=5))


def weights(generator: Generator) -> dict[str, torch.Tensor]:
    return generator.model.network.state_dict()


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_that_was_killed_ends_in_the_same_weights(name, tmp_path, monkeypatch):
    from adapcla.training import loop

    train, valid, _ = parts()
    with_checkpoints = {"checkpoint_seconds": 0.0}
    steps = []

    def stop_at_third(self: loop.Loop, moment: Moment) -> tuple[float, float]:
        steps.append(moment.step)
        if len(steps) == 4:
            raise InterruptedRun("killed by the test")
        return plain(self, moment)

    plain = loop.Loop._update
    monkeypatch.setattr(loop.Loop, "_update", stop_at_third)
    with pytest.raises(InterruptedRun):
        unfitted(name, **with_checkpoints).fit(train, valid, folder=tmp_path)
    monkeypatch.setattr(loop.Loop, "_update", plain)
    resumed = unfitted(name, **with_checkpoints).fit(train, valid, folder=tmp_path, resume=True)
    for key, value in weights(fitted(name)).items():
        assert torch.equal(value, weights(resumed)[key]), key


@pytest.mark.parametrize("name", STEERABLE)
def test_steering_moves_prevalence_towards_its_target(name):
    """A frequent code is asked for at half its share, and another is forbidden."""
    train, _, _ = parts()
    generator = fitted(name)
    plain = generator.sample(400, seed=2).prevalence().share
    first, second = np.argsort(-plain)[:2]
    wanted = np.full(train.n_codes, np.nan)
    wanted[first], wanted[second] = train.prevalence().share[first] / 3, 0.0
    steered = generator.sample(400, seed=2, toward=Prevalence(train.vocabulary, wanted, 1000)).prevalence().share
    assert steered[first] < 0.8 * plain[first]
    assert steered[second] == 0


@pytest.mark.parametrize("name", [name for name in ROWS if name not in STEERABLE])
def test_what_cannot_be_steered_says_so(name):
    train, _, _ = parts()
    with pytest.raises(UsageError, match="cannot be steered"):
        fitted(name).sample(5, toward=train.prevalence())


@pytest.mark.parametrize("name", ROWS)
def test_likelihood_and_continuing_are_there_or_refused(name):
    _, _, test = parts()
    generator, supports = fitted(name), METHODS[name].supports
    if "likelihood" in supports:
        found = generator.log_likelihood(test)
        assert found.shape == (test.n_patients,)
        assert np.isfinite(found).all() and (found < 0).all()
    else:
        with pytest.raises(UsageError, match="likelihood"):
            generator.log_likelihood(test)
    history = test.subset(range(5))
    if "continue_" in supports:
        continued = generator.continue_(history, visits=1, draws=3, seed=1)
        assert continued.probabilities.shape == (5, test.n_codes)
        assert 0 <= continued.probabilities.min() <= continued.probabilities.max() <= 1
    else:
        with pytest.raises(UsageError):
            generator.continue_(history, visits=1, draws=3, seed=1)


def test_train_only_has_the_weights_of_the_consistent_one():
    consistent, train_only = weights(fitted("static-pcla")), weights(fitted("static-pcla-train-only"))
    assert all(torch.equal(value, train_only[key]) for key, value in consistent.items())
    assert not same(fitted("static-pcla").sample(30), fitted("static-pcla-train-only").sample(30))


def test_the_release_says_that_it_trained_a_first_stage():
    facts = fitted("adapcla-release").model.facts
    assert facts["first stage"]["steps"] > 0
    assert facts["steps"] > facts["first stage"]["steps"]
    assert "trains first" in METHODS["adapcla-release"].row.starts_from


def test_rows_tell_what_they_are():
    assert len({method.row.summary for method in METHODS.values()}) == len(METHODS)
    for name, method in METHODS.items():
        row = method.row
        assert row.name == name == method.settings.method
        assert row.summary.endswith(".") and row.paper and row.starts_from
