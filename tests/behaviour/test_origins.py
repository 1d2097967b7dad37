"""Where patients came from travels with them: from the split into the model, and from the model into its samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapcla.data import Cohort, Kind, Origin
from adapcla.data.provenance import Group
from adapcla.data.split import ControlledSplit
from adapcla.generation import Generator, generator_for, load
from adapcla.generation.sample_folder import stream_sample
from adapcla.io import simulator as planted

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1}


@pytest.fixture(scope="module")
def parts() -> ControlledSplit[Cohort]:
    real = replace(planted.simulate(patients=200, codes=60, seed=1), card=Origin(Kind.REAL).as_card())
    return real.split(control=0.1)


@pytest.fixture(scope="module")
def model(parts: ControlledSplit[Cohort]) -> Generator:
    return generator_for("adapcla", **SMALL).fit(parts.train, parts.valid)


def learned(parts: ControlledSplit[Cohort]) -> tuple[Group, ...]:
    return tuple(Group(name, part.fingerprint, part.origin) for name, part in list(parts._asdict().items())[:2])


def test_a_sample_is_synthetic_and_names_its_training_and_validation_patients(
    model: Generator, parts: ControlledSplit[Cohort], tmp_path: Path
):
    origin = Origin(Kind.SYNTHETIC, (), learned(parts))
    assert model.sample(5).origin == origin
    model.save(tmp_path / "model")
    kept = load(tmp_path / "model")
    assert kept.model.origin == origin
    stream_sample(kept.model, 5, 1, tmp_path / "sample")
    assert Cohort.open(tmp_path / "sample").origin == origin
    assert kept.continue_(parts.test.subset([0]), draws=1).drawn.origin == origin


def test_a_model_without_an_origin_still_writes_synthetic_patients(model: Generator, tmp_path: Path):
    model.save(tmp_path / "model")
    kept = load(tmp_path / "model")
    del kept.model.facts["origin"]
    assert kept.sample(5).origin == Origin(Kind.SYNTHETIC)


def test_a_warm_start_brings_the_patients_of_the_model_that_it_starts_from(
    model: Generator, parts: ControlledSplit[Cohort], tmp_path: Path
):
    model.save(tmp_path / "model")
    warm = generator_for("adapcla", starts_from=str(tmp_path / "model"), **SMALL).fit(parts.test, parts.control)
    assert [group.fingerprint for group in warm.model.origin.ancestors()] == [
        part.fingerprint for part in (parts.test, parts.control, parts.train, parts.valid)
    ]


def test_a_private_model_names_nobody(parts: ControlledSplit[Cohort]):
    private = generator_for("adapcla", privacy={"epsilon": 8}, **SMALL).fit(parts.train, parts.valid)
    assert private.sample(5).origin == Origin(Kind.SYNTHETIC)
