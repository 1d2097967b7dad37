"""Raw form outside, bins inside: what people give and get has numbers, and nothing else changes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from adapcla.data import Cohort, Prevalence
from adapcla.data.criteria import Criteria
from adapcla.data.rules import Rules
from adapcla.errors import InputError, UsageError
from adapcla.generation import Generator, generator_for
from adapcla.generation.generator import load
from adapcla.generation.membership import evidence
from adapcla.generation.model import quantize_known, quantize_prevalence
from adapcla.generation.sample_folder import stream_sample
from adapcla.generation.sampler import rules_for
from adapcla.generation.steering import closed_loop, steer
from adapcla.io import simulator as planted
from adapcla.scaffold import Scaffold

SMALL: dict[str, Any] = {"width": 16, "passes": 2, "batch_size": 64}
KINDS = ["KIND/inpatient", "KIND/emergency", "KIND/outpatient"]
METHODS: dict[str, dict[str, Any]] = {
    "adapcla": {"layers": 1, "heads": 2},
    "tailwise": {"layers": 1, "heads": 2, "calibration_rounds": 1},
    "lstm": {"layers": 1},
    "gpt": {"layers": 1, "heads": 2},
    "marginal": {},
}


@pytest.fixture(scope="module")
def world() -> Any:
    return planted.simulate(500, 40, seed=2, whole=True).split(seed=4)


@pytest.fixture(scope="module")
def fits(world: Any) -> dict[str, Generator]:
    train, valid, _ = world
    return {name: generator_for(name, **SMALL, **more).fit(train, valid) for name, more in METHODS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_samples_have_numbers_and_survive_saving(
    name: str, fits: dict[str, Generator], world: Any, tmp_path: Path
) -> None:
    generator, (train, _, test) = fits[name], world
    sample = generator.sample(60, seed=3)
    assert sample.vocabulary == train.vocabulary == generator.vocabulary_
    assert sample.values is not None
    assert generator.model.vocabulary.groups[:4] == ("LAB/creatinine", "LAB/glucose", "LAB/sodium", "STAY/days")
    assert sample.fingerprint == generator.sample(60, seed=3, batch_size=7).fingerprint
    assert generator.sample(1030, seed=3).subset(np.arange(60)).fingerprint == sample.fingerprint
    generator.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.sample(60, seed=3).fingerprint == sample.fingerprint
    assert np.array_equal(again.log_likelihood(test), generator.log_likelihood(test))
    assert np.isfinite(generator.log_likelihood(test)).all()
    dead = np.flatnonzero(np.asarray(sample.codes) == sample.vocabulary.index["END/died"])
    assert np.isin(sample.visit_of_entry[dead], sample.last_visits).all()


def test_a_shareable_model_tells_no_band_of_few_patients(
    fits: dict[str, Generator], world: Any, tmp_path: Path
) -> None:
    fits["adapcla"].save(tmp_path / "shared", shareable=True)
    shared = load(tmp_path / "shared").model
    train = shared.quantize(world[0])
    bands = [code for code in shared.vocabulary.codes if "/b0" in code.token]
    assert len(bands) > 20
    counts = train.patient_counts[shared.vocabulary.positions([code.token for code in bands])]
    assert counts.min() >= 11
    assert shared.prevalence.known[shared.vocabulary.positions([code.token for code in bands])].all()


def test_the_folder_of_shards_is_the_sample(fits: dict[str, Generator], tmp_path: Path) -> None:
    model = fits["adapcla"].model
    stream_sample(model, 40, 5, tmp_path / "out")
    assert Cohort.open(tmp_path / "out").fingerprint == fits["adapcla"].sample(40, seed=5).fingerprint


def test_the_model_knows_the_patients_it_learned_from_as_they_are(fits: dict[str, Generator], world: Any) -> None:
    facts, train = fits["adapcla"].model.facts, world[0]
    assert facts["training data"] == train.fingerprint
    assert [group.fingerprint for group in fits["adapcla"].model.origin.learned_from] == [
        train.fingerprint, world[1].fingerprint,
    ]  # fmt: skip
    with pytest.raises(Exception, match="control"):
        evidence(fits["adapcla"].model, train, train, attack_models=0)
    found = evidence(fits["adapcla"].model, train, world[2], attack_models=0)
    assert len(found["control_log_likelihood"]) == world[2].n_patients


@pytest.mark.parametrize("name", ["halo", "eva", "synteg", "adapcla-halo"])
def test_methods_without_choices_refuse_in_one_sentence(name: str, world: Any) -> None:
    with pytest.raises(UsageError, match="no way to draw one code of a group"):
        generator_for(name, **SMALL).fit(world[0], world[1])


def test_differential_privacy_refuses_values(world: Any) -> None:
    with pytest.raises(UsageError, match="ε would not cover"):
        generator_for("adapcla", **SMALL, privacy={"epsilon": 8.0}).fit(world[0], world[1])


def test_matching_the_number_of_codes_is_refused(fits: dict[str, Generator]) -> None:
    with pytest.raises(UsageError, match="choice groups"):
        fits["adapcla"].sample(5, codes_per_visit="match")


# ---- steering ---------------------------------------------------------------------------------------------
@pytest.fixture
def exact(fits: dict[str, Generator]) -> Generator:
    """One law for all visits, which is the very prevalence that steering starts from: shifts are exact."""
    model = copy.deepcopy(fits["marginal"].model)
    model.network.logits.copy_(torch.from_numpy(Scaffold(model.prevalence).initial_logits))
    return Generator(model.settings, model)


def test_steering_a_choice_reaches_its_target(exact: Generator) -> None:
    """χ² of the endings as asked, and of the kinds as they were; those without the shift fail it."""
    wish = {"END/died": 0.3, "END/facility": 0.5}
    model, kinds, ends = exact.model, KINDS, ["END/died", "END/facility", "END/home"]
    drawn = exact.sample(3000, seed=1, toward=Prevalence.of(wish))

    def p_value(cohort: Cohort, tokens: list[str], shares: NDArray[np.float64]) -> float:
        found = cohort.visit_counts[cohort.vocabulary.positions(tokens)]
        return float(stats.chisquare(found, shares / shares.sum() * found.sum()).pvalue)

    # What ends in another way is left as it was: all of the rest.
    asked = np.array([0.3, 0.5, 0.2])
    assert p_value(drawn, ends, asked) > 1e-4
    assert p_value(exact.sample(3000, seed=1), ends, asked) < 1e-9
    assert p_value(drawn, kinds, model.prevalence.share[model.vocabulary.positions(kinds)]) > 1e-4


def test_a_target_may_name_a_number(exact: Generator) -> None:
    drawn = exact.sample(2000, seed=1, toward=Prevalence.of({"LAB/glucose": 0.9, "END/died": 0.0}))
    shares = dict(zip(drawn.vocabulary.tokens, drawn.prevalence().share, strict=True))
    assert shares["LAB/glucose"] == pytest.approx(0.9, abs=0.02)
    assert shares["END/died"] == 0


def test_the_prevalence_of_a_cohort_is_that_of_its_quantised_form(fits: dict[str, Generator], world: Any) -> None:
    model, test = fits["adapcla"].model, world[2]
    share = quantize_prevalence(model, test).on(model.vocabulary).share
    assert np.allclose(share, model.quantize(test).prevalence().share)
    steering = steer(model, test)
    assert not steering.unknown
    assert np.isfinite(steering.delta[model.prevalence.share > 0]).mean() > 0.9


def test_the_closed_loop_measures_bands(exact: Generator) -> None:
    model = exact.model
    start = steer(model, Prevalence.of({"LAB/sodium": 0.8}), strength=0.5)
    closed = closed_loop(model, start, seed=1, pilot=1024)
    assert np.abs(closed.delta - start.delta).max() < 1.0


# ---- conditions and continuations -------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["tailwise", "gpt"])
def test_a_condition_may_name_numbers_and_endings(name: str, fits: dict[str, Generator], world: Any) -> None:
    found = fits[name].sample(20, seed=2, having=["LAB/glucose", "END/died"], without="LAB/sodium", train=world[0])
    assert found.values is not None
    assert Criteria.of(["LAB/glucose", "END/died"], without="LAB/sodium").matches(found).all()
    assert found.card["condition"]["having"] == ["LAB/glucose", "END/died"]


@pytest.mark.parametrize("name", ["adapcla", "tailwise"])
def test_continuations_have_numbers(name: str, fits: dict[str, Generator], world: Any) -> None:
    histories = world[2].subset(np.flatnonzero(~world[2].died())[:5])
    found = fits[name].continue_(histories, visits=2, draws=4, seed=1)
    assert found.drawn.vocabulary == histories.vocabulary
    assert found.drawn.values is not None
    assert found.probabilities.shape == (5, histories.n_codes)
    kinds = histories.vocabulary.positions(KINDS)
    assert (found.probabilities[:, kinds].sum(axis=1) <= 1 + 1e-9).all()
    given = fits[name].continue_given(histories, Criteria.of("LAB/glucose", within=2), draws=2, seed=1)
    assert Criteria.of("LAB/glucose").matches(given.drawn).all()


def test_the_dead_are_not_continued(fits: dict[str, Generator], world: Any) -> None:
    with pytest.raises(InputError, match="end with death"):
        fits["adapcla"].continue_(world[0], draws=1)


def test_codes_that_the_model_does_not_know_go(fits: dict[str, Generator], world: Any) -> None:
    model, test = fits["adapcla"].model, world[2]
    few = test.keep_codes(np.arange(test.n_codes) != test.vocabulary.index["LAB/glucose"])
    inside = quantize_known(model, few)
    assert inside.vocabulary == model.vocabulary
    assert inside.n_patients == test.n_patients


def test_rules_are_about_what_comes_out(fits: dict[str, Generator], world: Any) -> None:
    """That an inpatient stay has a length is a rule of the number: each band alone is held by few of them."""
    generator, train = fits["tailwise"], world[0]
    rules, learned = rules_for(generator.model, train), Rules.of(train)
    index = train.vocabulary.index
    assert [index["KIND/inpatient"], index["STAY/days"]] in rules.before.tolist()
    assert rules.before.tolist() == learned.before.tolist() and rules.vocabulary == train.vocabulary
    plain, ruled = generator.sample(200, seed=3), generator.sample(200, seed=3, rules=rules)
    still = ruled.card["rules"]["still breaking one"]
    assert learned.any_broken(plain).sum() > still == learned.any_broken(ruled).sum()
