"""Opened cohorts and what models know of codes; real patients are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Cohort, Strata
from adapcla.errors import InputError
from adapcla.generation import load
from adapcla.studio.workspace import Workspace, album_of, known_by

WORK = "releases/hospital-work"


def test_what_a_model_knows_is_read_without_its_network(stocked: Path) -> None:
    known, model = known_by(stocked / "runs" / "one"), load(stocked / "runs" / "one").model
    assert known.vocabulary == model.vocabulary and np.array_equal(known.share, model.prevalence.share, equal_nan=True)
    counts = np.round(model.prevalence.share * (model.prevalence.n_visits or 0)).astype(np.int64)
    assert np.array_equal(known.rare, Strata.of(counts, known.vocabulary).tail)
    token = known.vocabulary.tokens[0]
    assert known.label(token).startswith(f"{token}  ") and known.label("E84*") == "E84*"
    assert set(known.attributes) == set(model.attribute_distribution.names)


def test_the_model_says_what_is_rare_where_it_is_known(stocked: Path) -> None:
    space = Workspace(stocked)
    album, who = album_of(space, "samples/first", "runs/one")
    assert "learned from" in who and np.array_equal(album.rare, known_by(stocked / "runs" / "one").rare)
    album, who = album_of(space, f"{WORK}/tries/1/sample")
    assert "learned from" in who
    album, who = album_of(space, "samples/first")
    assert "themselves" in who and np.array_equal(album.rare, Cohort.open(stocked / "samples" / "first").strata().tail)


@pytest.mark.parametrize("name", ["cohorts/world", f"{WORK}/data/train", f"{WORK}/tries/1/patients/test"])
def test_patients_whom_no_generator_wrote_are_refused(stocked: Path, name: str) -> None:
    with pytest.raises(InputError, match="may be real"):
        album_of(Workspace(stocked), name)


def test_a_torn_model_is_an_error(stocked: Path, tmp_path: Path) -> None:
    shutil.copytree(stocked / "runs" / "one", tmp_path / "m")
    np.save(tmp_path / "m" / "model" / "prior.npy", np.zeros(3))
    with pytest.raises(InputError, match="do not fit"):
        known_by(tmp_path / "m")
