"""Mutated NDJSON, Parquet and pickles: reading ends in a cohort or in a named error, never in anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.io.fuzz import mutated

from adapcla.data import Code, Cohort
from adapcla.errors import AdapclaError
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.readers import halo

#: Enough to meet each kind of mutation several times; more would not fit into a minute for all sources.
MUTATIONS = 25


@pytest.mark.parametrize("source", ["meds", "fhir", "halo"])
def test_a_mutated_export_is_a_cohort_or_a_named_error(source: str, tmp_path: Path) -> None:
    cohort = Cohort.of(
        [[["ICD9CM/4019", "ICD9CM/25000"], ["ICD9CM/4019"]]] * 3,
        [Code.of("4019", "ICD9CM"), Code.of("25000", "ICD9CM")],
    )
    folder = tmp_path / "x"
    if source == "halo":
        folder.mkdir()
        halo.write_pickles(cohort, folder, lambda patient: [])
    else:
        export.write(cohort, folder, source)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "metadata" not in path.parts)
    contents = {path: path.read_bytes() for path in files}
    ended = {"cohort": 0, "error": 0}
    for seed in range(MUTATIONS):
        draws = random.Random(seed)
        path = draws.choice(files)
        path.write_bytes(mutated(contents[path], draws))
        try:
            ended["cohort"] += read(source, folder).n_patients > 0
        except AdapclaError as error:
            assert error.exit_code == 3, error
            ended["error"] += 1
        path.write_bytes(contents[path])
    assert ended["cohort"] + ended["error"] == MUTATIONS
    assert ended["error"] > 0


def test_mutated_pickles_never_get_past_the_reader(tmp_path: Path) -> None:
    """Random bytes and mutated pickles, at the level of the restricted reader alone."""
    import pickle

    import numpy as np

    whole = pickle.dumps([{"visits": [[0, 1]], "labels": np.array([1.0])}] * 3, protocol=4)
    path = tmp_path / "x.pkl"
    for seed in range(1_000):
        draws = random.Random(seed)
        path.write_bytes(mutated(whole, draws) if seed % 2 else draws.randbytes(40))
        try:
            halo.load(path)
        except AdapclaError as error:
            assert error.exit_code == 3
